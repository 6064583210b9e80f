// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rawblockd/rawblockd/client"
)

// leastInterval keeps top from being load itself.
const leastInterval = 10 * time.Millisecond

// topView is one run of the top verb.
type topView struct {
	cl       *client.Client
	interval time.Duration
	asJSON   bool
	once     bool
}

func (c *cli) topVerb() *cobra.Command {
	v := topView{interval: 2 * time.Second}
	cmd := c.daemonCommand("top", "Watch slabs, transfers, hits and requests, until interrupted", cobra.NoArgs,
		func(ctx context.Context, cl *client.Client, t *target, _ []string) error {
			if v.interval < leastInterval {
				return usagef("top: --interval %v: want at least %v", v.interval, leastInterval)
			}
			v.cl, v.asJSON = cl, t.json
			return c.top(ctx, &v)
		})
	cmd.Long = "Show slabs, transfers, hits and requests, with rates since the refresh before, until interrupted. On a terminal it\n" +
		"is one screen, which is put back at the end; elsewhere, and with --json, one report after the other."
	f := cmd.Flags()
	f.DurationVar(&v.interval, "interval", v.interval, "time between refreshes")
	f.BoolVar(&v.once, "once", false, "print one report, with rates over one interval, and end")
	f.Lookup("json").Usage = "print reports as JSON, one a line"
	return cmd
}

// top takes samples and shows each against the one before.
func (c *cli) top(ctx context.Context, v *topView) (err error) {
	before, err := v.sample(ctx)
	if err != nil {
		return adminHint(err, "the status")
	}
	show := c.topLines
	if v.asJSON {
		show = c.topJSON
	}
	if !v.asJSON && !v.once && isTerminal(c.stdout) {
		s := &screen{out: c.stdout}
		s.open()
		defer s.close()
		show = s.show
	}
	if !v.once {
		if err := show(rates(before, before)); err != nil {
			return err
		}
	}
	tick := time.NewTicker(v.interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return v.left(ctx)
		case <-tick.C:
		}
		now, err := v.sample(ctx)
		if ctx.Err() != nil {
			return v.left(ctx)
		}
		if err != nil {
			return err
		}
		if err := show(rates(before, now)); err != nil || v.once {
			return err
		}
		before = now
	}
}

// left is how top ends when it is told to: that is the way to leave it, but not
// to leave a report that was asked for.
func (v *topView) left(ctx context.Context) error {
	if v.once {
		return ctx.Err()
	}
	return nil
}

func (v *topView) sample(ctx context.Context) (topSample, error) {
	st, err := v.cl.Status(ctx)
	if err != nil {
		return topSample{}, err
	}
	req, err := v.cl.Requests(ctx)
	return topSample{at: time.Now(), StatusReport: st, requests: req}, err
}

func (c *cli) topJSON(r topReport) error { return json.NewEncoder(c.stdout).Encode(r) }

func (c *cli) topLines(r topReport) error {
	if err := r.write(c.stdout); err != nil {
		return err
	}
	_, err := fmt.Fprintln(c.stdout)
	return err
}
