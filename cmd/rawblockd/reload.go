// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/config"
	"github.com/rawblockd/rawblockd/store"
)

// reloadWithin bounds how long a reload waits for metadata that hangs. The daemon
// watches over nothing else meanwhile.
const reloadWithin = 30 * time.Second

// setup is what a daemon is told: a configuration and what it names.
type setup struct {
	cfg     *config.Config
	secrets *secrets
}

// hangup asks for a reload, which happens when the daemon serves. Several that
// come while one waits are one.
func (d *daemon) hangup() {
	select {
	case d.hangups <- struct{}{}:
	default:
	}
}

// reload reads the configuration anew and applies what can be applied without a
// restart: all of it, or after a fault nothing.
func (d *daemon) reload(ctx context.Context) {
	d.tell(reloading())
	defer d.tell("READY=1")
	changed, err := d.tryReload(ctx)
	if err != nil {
		d.reloads.refused.Inc()
		for _, why := range lines(err) {
			d.log.Error("SIGHUP: fault", "fault", why)
		}
		if errors.Is(err, store.ErrOutcomeUnknown) {
			d.log.Error("SIGHUP: the namespaces may be changed when the metadata answers again, nothing else was; send it again then")
			return
		}
		d.log.Error("SIGHUP: nothing was changed; correct what was said and send it again")
		return
	}
	d.reloads.applied.Inc()
	d.log.Info("SIGHUP: the configuration was read anew", "changed", changed)
}

// reloading is what a service manager is told; it wants to know since when.
func reloading() string {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return "RELOADING=1"
	}
	return fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", now.Nano()/int64(time.Microsecond))
}

// lines are what is wrong, each for a line of the log.
func lines(err error) []string {
	var all *config.Error
	if !errors.As(err, &all) {
		return []string{oneLine(err)}
	}
	out := make([]string, len(all.Faults))
	for i, f := range all.Faults {
		out[i] = f.String()
	}
	return out
}

// tryReload returns the settings that have another value now. What can fail comes
// first.
func (d *daemon) tryReload(ctx context.Context) ([]string, error) {
	if d.load == nil {
		return nil, errors.New("this daemon has no configuration to read")
	}
	found, err := d.load()
	if err != nil {
		return nil, err
	}
	r, err := d.running.Reload(found.cfg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, d.reloadWithin)
	defer cancel()
	if err := d.store.Reload(ctx, seeds(r.Config)); err != nil {
		return nil, fmt.Errorf("namespaces: %w", err)
	}
	d.running = r.Config
	d.apply(found.secrets)
	for _, c := range r.Restart {
		d.log.Warn("SIGHUP: this setting takes a restart", "setting", c.Path, "is", c.Was, "configured", c.Now)
	}
	changed := make([]string, len(r.Applied))
	for i, c := range r.Applied {
		changed[i] = c.Path
	}
	return changed, nil
}

// apply makes the server and the log do as the running configuration and its
// secrets say.
func (d *daemon) apply(s *secrets) {
	d.level.Set(level(d.running.Log))
	d.srv.SetTokens(s.tokens)
	if s.cert != nil && d.running.TLS.CertFile != "" {
		d.srv.SetCertificate(s.cert)
	}
	for _, w := range append(d.running.Warnings(), s.warnings(d.running, time.Now())...) {
		d.log.Warn("configuration", "warning", w)
	}
}

// seeds are the namespaces of a configuration, as the store takes them.
func seeds(c *config.Config) []store.Namespace {
	out := make([]store.Namespace, len(c.Namespaces))
	for i, n := range c.Namespaces {
		out[i] = store.Namespace{Name: n.Name, Slabs: n.Slabs, Quota: int64(n.Quota), TTL: n.TTL}
	}
	return out
}
