// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/client"
)

func (c *cli) drainVerb() *cobra.Command {
	return c.slabCommand("drain SLAB", "Stop stores to a slab; what is on it is served on", (*client.Client).Drain)
}

// slabCommand makes a verb that changes a slab.
func (c *cli) slabCommand(use, short string, do func(*client.Client, context.Context, string) (api.SlabStatus, error)) *cobra.Command {
	cmd, t := c.targetCommand(use, short, cobra.ExactArgs(1), func(ctx context.Context, cl *client.Client, t *target, args []string) error {
		s, err := do(cl, ctx, args[0])
		if err != nil {
			return adminHint(err, "the control of slabs")
		}
		if t.json {
			return c.printJSON(s)
		}
		_, err = fmt.Fprintf(c.stdout, "%s: %s, %s of %s slots are free\n", s.Name, healthText(s), count(s.Slots.Free), count(s.Slots.Total))
		return err
	})
	cmd.ValidArgsFunction = onlyFirst(t.complete(cmd, slabNames))
	return cmd
}
