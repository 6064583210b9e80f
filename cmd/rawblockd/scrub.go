// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/client"
)

// scrubLook is how often a scrub that is waited for is asked how far it is.
const scrubLook = 200 * time.Millisecond

func (c *cli) scrubVerb() *cobra.Command {
	wait := false
	cmd, t := c.targetCommand("scrub SLAB", "Read every entry of a slab, and drop what is bad", cobra.ExactArgs(1),
		func(ctx context.Context, cl *client.Client, t *target, args []string) error {
			s, err := startScrub(ctx, cl, args[0], wait)
			if err == nil && wait {
				s, err = c.awaitScrub(ctx, cl, s)
			}
			if err != nil {
				return adminHint(err, "the control of slabs")
			}
			if t.json {
				err = c.printJSON(s)
			} else {
				_, err = fmt.Fprintf(c.stdout, "%s: %s\n", s.Name, scrubText(s.Scrub))
			}
			return errors.Join(err, scrubVerdict(s, wait))
		})
	cmd.Long = "Read every entry of a slab, and drop what is bad or cannot be read. The daemon does it in the background, one entry\n" +
		"at a time, and stands back for loads. --wait waits for the end, also of a scrub that is under way, and exits with 1\n" +
		"if anything was bad; interrupting it does not end the scrub."
	cmd.Flags().BoolVar(&wait, "wait", false, "wait for the end, with progress on a terminal")
	cmd.ValidArgsFunction = onlyFirst(t.complete(cmd, slabNames))
	return cmd
}

// startScrub starts a scrub. Who waits is content with one that is under way.
func startScrub(ctx context.Context, cl *client.Client, slab string, wait bool) (api.SlabStatus, error) {
	s, err := cl.Scrub(ctx, slab)
	var e *client.Error
	switch {
	case err == nil || !errors.As(err, &e) || e.Code() != api.CodeScrubbing:
		return s, err
	case !wait:
		return s, fmt.Errorf("%w; to wait for it, give --wait", err)
	}
	return slabStatus(ctx, cl, slab)
}

// slabStatus returns the status of one slab.
func slabStatus(ctx context.Context, cl *client.Client, name string) (api.SlabStatus, error) {
	all, err := cl.Slabs(ctx)
	if err != nil {
		return api.SlabStatus{}, err
	}
	for _, s := range all {
		if s.Name == name {
			return s, nil
		}
	}
	return api.SlabStatus{}, fmt.Errorf("the daemon at %s has no slab %q any more", cl.Addr(), name)
}

// awaitScrub asks until the scrub has ended.
func (c *cli) awaitScrub(ctx context.Context, cl *client.Client, s api.SlabStatus) (api.SlabStatus, error) {
	bar, done := c.steps("scrub "+s.Name, scrubTotal(s))
	defer done()
	tick := time.NewTicker(scrubLook)
	defer tick.Stop()
	for s.Scrub != nil && s.Scrub.Running {
		bar(int64(s.Scrub.Done))
		select {
		case <-ctx.Done():
			return s, ctx.Err()
		case <-tick.C:
		}
		var err error
		if s, err = slabStatus(ctx, cl, s.Name); err != nil {
			return s, err
		}
	}
	return s, nil
}

func scrubTotal(s api.SlabStatus) int64 {
	if s.Scrub == nil {
		return 0
	}
	return int64(s.Scrub.Total)
}

// scrubText says how a scrub is.
func scrubText(p *api.ScrubStatus) string {
	switch {
	case p == nil:
		return "no scrub since the daemon's start"
	case p.Running:
		return fmt.Sprintf("scrub under way, %s of %s slots, %s bad", count(p.Done), count(p.Total), count(p.Bad))
	case p.Stopped != "":
		return fmt.Sprintf("scrub stopped at %s of %s slots, %s bad: %s", count(p.Done), count(p.Total), count(p.Bad), p.Stopped)
	}
	return fmt.Sprintf("scrub done, %s slots, %s bad", count(p.Total), count(p.Bad))
}

// scrubVerdict is the error of a scrub that was waited for and found something,
// or did not come to its end.
func scrubVerdict(s api.SlabStatus, waited bool) error {
	switch p := s.Scrub; {
	case !waited:
		return nil
	case p == nil:
		return fmt.Errorf("scrub %q: the daemon was started anew meanwhile: scrub again", s.Name)
	case p.Stopped != "":
		return fmt.Errorf("scrub %q: it did not come to its end: see the slab's status, and scrub again", s.Name)
	case p.Bad > 0:
		return fmt.Errorf("scrub %q: %s entries were bad and are gone: see the daemon's log for which slots, and dmesg for errors of the device", s.Name, count(p.Bad))
	}
	return nil
}
