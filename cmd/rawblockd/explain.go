// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/client"
)

func (c *cli) explainVerb() *cobra.Command {
	cmd := c.clientCommand("explain KEY", "Say what became of a key: where it is, or why it is not", cobra.ExactArgs(1),
		func(ctx context.Context, cl *client.Client, t *target, args []string) error {
			x, err := cl.Explain(ctx, args[0])
			if err != nil {
				return err
			}
			if t.json {
				return c.printJSON(x)
			}
			return c.printExplanation(x)
		})
	cmd.Long = "Say what became of a key: where it is, or why it is not, as far as the daemon remembers since its start.\n" +
		"That a key is not stored is an answer like any: exit code 0."
	return cmd
}

func (c *cli) printExplanation(x api.Explanation) error {
	rows := [][]string{{"key", x.Key}, {"status", string(x.Status)}, {"reason", x.Reason}, {"detail", x.Detail}}
	when := func(name string, t time.Time) {
		if !t.IsZero() {
			rows = append(rows, []string{name, moment(t)})
		}
	}
	when("at", x.At)
	if x.Slab != "" {
		place := x.Slab
		if x.Slot != nil {
			place = fmt.Sprintf("%s, slot %s", place, count(*x.Slot))
		}
		rows = append(rows, []string{"slab", place})
	}
	if x.Bytes > 0 {
		rows = append(rows, []string{"size", fmt.Sprintf("%s bytes in %s of slots", count(x.Bytes), size(x.SlotBytes))})
	}
	if x.Generation > 0 {
		rows = append(rows, []string{"generation", fmt.Sprint(x.Generation)})
	}
	when("stored", x.StoredAt)
	when("expires", x.ExpiresAt)
	if x.Pinned {
		rows = append(rows, []string{"pinned", "by a lease"})
	}
	return c.table(rows)
}
