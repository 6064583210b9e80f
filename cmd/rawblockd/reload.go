// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
// restart: all of it, or after a fault of the configuration nothing. Metadata that
// cannot follow holds back the namespaces alone.
func (d *daemon) reload(ctx context.Context) {
	d.tell(reloading())
	defer d.tell("READY=1")
	changed, err := d.tryReload(ctx)
	if err != nil {
		d.reloads.refused.Inc()
		for _, why := range lines(err) {
			d.log.Error("SIGHUP: fault", "fault", why)
		}
		var part *partError
		switch {
		case errors.Is(err, store.ErrOutcomeUnknown):
			d.log.Error("SIGHUP: the namespaces may be changed when the metadata answers again; send it again then; the rest was applied", "changed", changed)
		case errors.As(err, &part):
			d.log.Error("SIGHUP: the namespaces were not changed; correct what was said and send it again; the rest was applied", "changed", changed)
		default:
			d.log.Error("SIGHUP: nothing was changed; correct what was said and send it again")
		}
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

// partError is why the namespaces could not follow a configuration that is right.
type partError struct{ err error }

func (e *partError) Error() string { return "namespaces: " + e.err.Error() }
func (e *partError) Unwrap() error { return e.err }

// tryReload returns the settings that have another value now, and what is new in the
// files that they name, also with a *partError. What takes no metadata comes first: a token that is revoked must not
// live on because that has failed, or hangs.
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
	part := *r.Config
	part.Namespaces = d.running.Namespaces
	d.running = &part
	d.apply(found.secrets)
	news := d.follow(found.secrets)
	ctx, cancel := context.WithTimeout(ctx, d.reloadWithin)
	defer cancel()
	if err := d.store.Reload(ctx, seeds(r.Config)); err != nil {
		d.warn(found.secrets, nil)
		return append(changed(r.Applied, false), news...), &partError{err}
	}
	d.running = r.Config
	d.warn(found.secrets, r.Restart)
	return append(changed(r.Applied, true), news...), nil
}

// changed names the settings that have another value, those of namespaces only if
// they do.
func changed(all []config.Change, namespaces bool) []string {
	paths := make([]string, 0, len(all))
	for _, c := range all {
		if namespaces || !strings.HasPrefix(c.Path, "namespaces") {
			paths = append(paths, c.Path)
		}
	}
	return paths
}

// apply makes the server and the log do as the running configuration and its
// secrets say.
func (d *daemon) apply(s *secrets) {
	d.level.Set(level(d.running.Log))
	d.srv.SetTokens(s.tokens)
	if s.cert != nil && d.running.TLS.CertFile != "" {
		d.srv.SetCertificate(s.cert)
	}
}

// warn tells what is odd about the running configuration and its secrets, and what
// takes a restart.
func (d *daemon) warn(s *secrets, restart []config.Change) {
	for _, c := range restart {
		d.log.Warn("SIGHUP: this setting takes a restart", "setting", c.Path, "is", c.Was, "configured", c.Now)
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
