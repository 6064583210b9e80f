// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/client"
)

func (c *cli) statusVerb() *cobra.Command {
	return c.clientCommand("status", "Show slabs, slots by state, namespaces and leases", cobra.NoArgs,
		func(ctx context.Context, cl *client.Client, t *target, _ []string) error {
			st, err := cl.Status(ctx)
			if err != nil {
				return adminHint(err, "the status")
			}
			if t.json {
				return c.printJSON(st)
			}
			return c.printStatus(st)
		})
}

func (c *cli) printStatus(st api.StatusReport) error {
	state := "serving"
	switch {
	case st.MetaFailed != "":
		state = "metadata failed, changes are refused: " + st.MetaFailed
	case st.StoresRefused != "":
		state = "serving, but stores are refused: " + st.StoresRefused
	case !st.Ready:
		state = "not ready yet"
	}
	fmt.Fprintf(c.stdout, "rawblockd %s, instance %s: %s\n%s entries, %s leases, %s pins, %s pinned\n\n",
		st.Version, st.Instance, state, count(st.Entries), count(st.Leases), count(st.Pins), size(st.PinnedBytes))
	rows := [][]string{{"SLAB", "HEALTH", "DURABILITY", "ENGINE", "SLOT", "FREE", "RESERVED", "USED", "DELETING", "RETIRED", "QUARANTINED", "TOTAL", "DEVICE"}}
	for _, s := range st.Slabs {
		health, engine := s.Health, "-"
		if p := s.Scrub; p != nil && p.Running {
			health += fmt.Sprintf(", scrub at %d %%", 100*int64(p.Done)/max(int64(p.Total), 1))
		}
		if s.Engine != nil {
			engine = s.Engine.Name
			if !s.Engine.Direct {
				engine += " (buffered)"
			}
			if s.Engine.Unregistered != "" {
				engine += " (unregistered)"
			}
		}
		n := s.Slots
		rows = append(rows, []string{
			s.Name, health, s.Durability, engine, size(s.SlotSize), count(n.Free), count(n.Reserved), count(n.Used),
			count(n.Deleting), count(n.Retired), count(n.Quarantined), count(n.Total), s.Device,
		})
	}
	if err := c.table(rows); err != nil {
		return err
	}
	for _, s := range st.Slabs {
		writeReason(c.stdout, s)
		writeEngine(c.stdout, s)
	}
	fmt.Fprintln(c.stdout)
	rows = [][]string{{"NAMESPACE", "ENTRIES", "SLOT BYTES", "QUOTA", "PINNED"}}
	for _, n := range st.Namespaces {
		name, quota := n.Name, "none"
		if !n.Configured {
			name += " (not configured, not served)"
		}
		if n.Quota > 0 {
			quota = size(n.Quota)
		}
		rows = append(rows, []string{name, count(n.Entries), size(n.SlotBytes), quota, size(n.PinnedBytes)})
	}
	return c.table(rows)
}

// writeReason says, on a line of its own below the table, why a slab is not online.
func writeReason(w io.Writer, s api.SlabStatus) {
	if s.Reason != "" {
		fmt.Fprintf(w, "%s is %s: %s\n", s.Name, s.Health, s.Reason)
	}
}

// writeEngine says why an engine is not what it could be.
func writeEngine(w io.Writer, s api.SlabStatus) {
	switch e := s.Engine; {
	case e == nil:
	case e.Unregistered != "":
		fmt.Fprintf(w, "%s is on uring without registered memory, at more CPU: %s\n", s.Name, e.Unregistered)
	case e.Name == "pread" && e.Why != "":
		fmt.Fprintf(w, "%s is on pread: %s\n", s.Name, e.Why)
	}
}
