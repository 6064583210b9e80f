// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rawblockd/rawblockd/client"
)

func (c *cli) clearVerb() *cobra.Command {
	yes := false
	cmd := c.clientCommand("clear", "Remove every entry of a namespace that no lease protects", cobra.NoArgs,
		func(ctx context.Context, cl *client.Client, t *target, _ []string) error {
			if !yes {
				n, err := cl.Settings(ctx)
				if err != nil {
					return err
				}
				what := fmt.Sprintf("clear namespace %q at %s, which holds %s entries in %s of slots", n.Name, cl.Addr(), count(n.Entries), size(n.SlotBytes))
				if err := c.confirm(ctx, "clear", what); err != nil {
					return err
				}
			}
			res, err := cl.Clear(ctx)
			if err != nil {
				return err
			}
			if t.json {
				return c.printJSON(res)
			}
			_, err = fmt.Fprintf(c.stdout, "%s: %s removed, %s pinned ones stay\n", cl.Namespace(), count(res.Removed), count(res.Pinned))
			return err
		})
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}
