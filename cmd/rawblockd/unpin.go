// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rawblockd/rawblockd/client"
)

func (c *cli) unpinVerb() *cobra.Command {
	return c.clientCommand("unpin LEASE [KEY...]", "Release a lease, or some keys of it", cobra.MinimumNArgs(1),
		func(ctx context.Context, cl *client.Client, t *target, args []string) error {
			var keys []string // nil: all of the lease
			if len(args) > 1 {
				var err error
				if keys, err = t.keysOf(ctx, args[1:]); err != nil {
					return err
				}
				if keys == nil {
					keys = []string{} // an empty stdin is no key, not every key
				}
			}
			res, err := cl.Unpin(ctx, args[0], keys)
			if err != nil {
				return err
			}
			if t.json {
				return c.printJSON(res)
			}
			_, err = fmt.Fprintf(c.stdout, "%d released, %d stale\n", res.Released, res.Stale)
			return err
		})
}
