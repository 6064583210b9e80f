// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/config"
	"github.com/rawblockd/rawblockd/ioengine"
	"github.com/rawblockd/rawblockd/meta"
	"github.com/rawblockd/rawblockd/server"
	"github.com/rawblockd/rawblockd/slab"
	"github.com/rawblockd/rawblockd/store"
)

// daemon is all that serve owns. One goroutine opens it, waits and stops it;
// handlers use only what is safe by itself.
type daemon struct {
	cfg    *config.Config // as at the start
	log    *slog.Logger
	notify string // $NOTIFY_SOCKET

	secrets      *secrets              // in force; nil: to be read at the start
	load         func() (setup, error) // reads the configuration anew; nil: there is none to be read
	running      *config.Config        // what reloads have made of cfg; only run's goroutine has it
	level        *slog.LevelVar        // of log
	hangups      chan struct{}
	reloads      reloadMetrics
	reloadWithin time.Duration

	listeners listeners
	srv       *server.Server
	https     []*http.Server
	fresh     fresh
	timings   *timings
	serving   sync.WaitGroup
	broken    chan error // a listener failed; room for all

	metaWhy      string         // why the metadata failed; set before metaFailed is closed
	metaFailed   chan struct{}  // closed when it failed
	outlasted    bool           // the log says that it failed
	metaOpen     meta.Options   // what the configuration does not say; tests put a failing disk here
	tending      sync.WaitGroup // keepBallast
	ballastEvery time.Duration
	probe        func() error // whether the metadata's file system works again
	probeEvery   time.Duration
	stopWithin   time.Duration
	// requestsWithin is the part of stopWithin for requests under way.
	requestsWithin time.Duration

	mu sync.Mutex // devices: a status may come in while they are being opened
	// +checklocks:mu
	devices []*device        // the slabs that could be opened
	missing map[string]error // why others could not, by name; of the goroutine that opens
	unfit   []unfitSlab      // those of them whose devices are there

	arena *ioengine.Arena
	meta  *meta.DB
	store *store.Store
}

// device is one slab and what lies under it, in the order of opening.
type device struct {
	name   string
	file   *ioengine.File
	engine slabEngine
	slab   *slab.Slab
}

func newDaemon(cfg *config.Config, log *slog.Logger, notifySocket string) *daemon {
	return &daemon{
		cfg: cfg, log: log, timings: newTimings(), notify: notifySocket, broken: make(chan error, 4), hangups: make(chan struct{}, 1), running: cfg, level: &slog.LevelVar{}, reloads: newReloadMetrics(), reloadWithin: reloadWithin, metaFailed: make(chan struct{}),
		probe: func() error { return probeMeta(cfg.Meta) }, probeEvery: probeEvery, stopWithin: stopWithin, requestsWithin: requestsWithin, ballastEvery: ballastEvery,
	}
}

// run serves until ctx ends, then stops. prepare is called when the listeners
// are open, so that of two daemons only one does it; ready when all is served.
func (d *daemon) run(ctx context.Context, prepare func() error, ready func()) (err error) {
	if d.secrets == nil {
		d.secrets = &secrets{}
		if faults := d.secrets.read(d.cfg); len(faults) > 0 {
			return &config.Error{Faults: faults}
		}
	}
	if d.listeners, err = listen(d.cfg.Listen); err != nil {
		return err
	}
	if err := d.answer(); err != nil {
		return errors.Join(err, d.listeners.close())
	}
	err = prepare()
	if err == nil {
		err = d.open(ctx)
	}
	if err == nil {
		d.srv.SetStore(d.store)
		d.tell("READY=1")
		d.log.Info("serving", "unix", d.cfg.Listen.Unix, "http", address(d.listeners.http), "admin", address(d.listeners.admin),
			"lease", address(d.listeners.lease), "tls", d.secrets.cert != nil, "tokens", d.secrets.tokens != nil)
		ready()
		tend, end := context.WithCancel(ctx)
		d.tending.Go(func() { d.keepBallast(tend) })
		err = d.wait(ctx)
		end()
	}
	d.tell("STOPPING=1")
	return errors.Join(err, d.stop())
}

// answer begins to answer requests: health at once, the rest when there is a
// store.
func (d *daemon) answer() error {
	var id [8]byte
	rand.Read(id[:]) // crypto/rand never fails: it ends the process instead
	l := d.cfg.Limits
	d.srv = server.New(server.Options{
		Limits: server.Limits{
			BatchKeys: l.BatchKeys, Payload: int64(l.Payload), StreamBytes: int64(l.StreamBytes),
			JSONBytes: int64(l.JSONBytes), Requests: l.Requests, RequestDeadline: l.RequestDeadline,
		},
		Instance: hex.EncodeToString(id[:]), Version: readVersion().Version, Hosts: hostNames(d.cfg.Listen), Conns: mostConns(), Slow: d.cfg.Log.Slow, Log: d.log, Engine: d.engineStats,
	})
	reg := d.srv.Registry()
	for _, c := range []func() error{
		func() error { return reg.Register(collectors.NewGoCollector()) },
		func() error { return reg.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})) },
		func() error { return reg.Register(&engineCollector{d}) },
		func() error { return d.timings.register(reg) },
		func() error { return d.reloads.register(reg) },
	} {
		if err := c(); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	d.apply(d.secrets)
	d.warn(d.secrets, nil)
	tcp := d.srv.Listener
	if d.secrets.cert != nil {
		tcp = d.srv.TLSListener
	}
	lease := server.LeaseOptions{Allow: d.cfg.Listen.Lease.Prefixes(), Namespaces: d.cfg.Listen.Lease.Namespaces}
	d.serve("unix", d.listeners.unix, d.srv.Listener, d.srv.DataHandler(server.Unix))
	d.serve("http", d.listeners.http, tcp, d.srv.DataHandler(server.TCP))
	d.serve("admin", d.listeners.admin, tcp, d.srv.AdminHandler())
	d.serve("lease", d.listeners.lease, d.srv.Listener, d.srv.LeaseHandler(lease))
	return nil
}

// serve serves h on a listener, if there is one, as wrap wraps it.
func (d *daemon) serve(name string, l net.Listener, wrap func(net.Listener) net.Listener, h http.Handler) {
	if l == nil {
		return
	}
	hs := d.srv.HTTPServer(h)
	d.fresh.watch(hs)
	d.https = append(d.https, hs)
	d.serving.Go(func() {
		if err := hs.Serve(wrap(l)); !errors.Is(err, http.ErrServerClosed) {
			d.broken <- fmt.Errorf("listen.%s %s: %w", name, l.Addr(), err)
		}
	})
}

// wait returns when ctx ends, a listener fails, or a restart is due.
func (d *daemon) wait(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			d.log.Info("stopping", "cause", context.Cause(ctx))
			return nil
		case err := <-d.broken:
			return err
		case <-d.metaFailed:
			return d.outlast(ctx)
		case <-d.hangups:
			d.reload(ctx)
		}
	}
}

func (d *daemon) tell(state string) {
	if err := notify(d.notify, state); err != nil {
		d.log.Warn("service manager not told", "state", state, "err", err)
	}
}

// device returns the slab called name, or nil.
func (d *daemon) device(name string) *device {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, v := range d.devices {
		if v.name == name {
			return v
		}
	}
	return nil
}

// engineStats is server.Options.Engine.
func (d *daemon) engineStats(name string) *api.EngineStats {
	v := d.device(name)
	if v == nil {
		return nil
	}
	e, g := v.engine.Stats(), v.file.Geometry()
	return &api.EngineStats{
		Name: e.Name, Depth: e.Depth, Why: v.engine.why, Registered: v.engine.registered, Unregistered: v.engine.unregistered,
		Direct: g.Direct, Block: g.Block,
		InFlightOps: e.InFlightOps, InFlightBytes: e.InFlightBytes, QueuedOps: e.QueuedOps, MaxInFlight: e.MaxInFlight,
		Reads: e.Ops[ioengine.Read], Writes: e.Ops[ioengine.Write],
		ReadBytes: e.Bytes[ioengine.Read], WrittenBytes: e.Bytes[ioengine.Write],
		ReadErrors: e.Errors[ioengine.Read], WriteErrors: e.Errors[ioengine.Write], Flushes: e.Flushes,
	}
}
