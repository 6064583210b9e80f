// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/rawblockd/rawblockd/meta"
)

// stopWithin bounds a stop: a device that hangs must not hang it. Nothing
// relies on a clean stop, so to leave early loses nothing but time at the next
// start.
const stopWithin = 10 * time.Second

// requestsWithin is how much of that requests under way may take; the rest belongs
// to what comes after.
const requestsWithin = stopWithin - stopWithin/10

// stop ends requests, then closes everything in reverse order.
func (d *daemon) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), d.stopWithin)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- errors.Join(d.stopServing(ctx), d.close()) }()
	select {
	case err := <-done:
		if err == nil {
			d.log.Info("stopped")
		}
		return err
	case <-ctx.Done():
		return fmt.Errorf("stop: not all work ended within %v; what was acknowledged is safe, the next start recovers the rest", d.stopWithin)
	}
}

// stopServing lets requests end.
func (d *daemon) stopServing(ctx context.Context) error {
	d.srv.SetStore(nil)
	ctx, cancel := context.WithTimeout(ctx, d.requestsWithin)
	defer cancel()
	var all sync.WaitGroup
	errs := make(chan error, len(d.https))
	d.fresh.close()
	for _, hs := range d.https {
		all.Go(func() { errs <- d.shutDown(ctx, hs) })
	}
	all.Wait()
	close(errs)
	var err error
	for e := range errs {
		err = errors.Join(err, e)
	}
	d.serving.Wait()
	return err
}

// shutDown cuts off the requests that do not end in time.
func (d *daemon) shutDown(ctx context.Context, hs *http.Server) error {
	err := hs.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		d.log.Warn("requests under way are cut off", "waited", d.requestsWithin)
		return hs.Close()
	}
	return err
}

// close closes what open opened, whatever of it there is.
func (d *daemon) close() error {
	var errs []error
	step := func(what string, err error) {
		if d.outlasted && errors.Is(err, meta.ErrFailed) {
			return // it has been said
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("close %s: %w", what, err))
		}
	}
	if d.store != nil {
		step("store", d.store.Close())
	}
	d.tending.Wait()
	if d.meta != nil {
		step("metadata", d.meta.Close())
	}
	d.mu.Lock()
	devices := d.devices
	d.mu.Unlock()
	for _, v := range devices {
		if v.slab != nil {
			step("slab "+v.name, v.slab.Close())
		}
		step("engine of "+v.name, v.engine.Close())
		step("device of "+v.name, v.file.Close())
	}
	if d.arena != nil { // after the engines, which have it registered
		step("stream buffers", d.arena.Close())
	}
	return errors.Join(errs...)
}
