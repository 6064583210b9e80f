// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/client"
)

func (c *cli) leasesVerb() *cobra.Command {
	return c.clientCommand("leases", "List the leases in force, of all namespaces", cobra.NoArgs,
		func(ctx context.Context, cl *client.Client, t *target, _ []string) error {
			list, err := cl.Leases(ctx)
			if err != nil {
				return err
			}
			if t.json {
				return c.printJSON(api.LeasesResponse{Leases: list})
			}
			rows := [][]string{{"LEASE", "NAMESPACE", "ENTRIES", "EXPIRES", "OWNER"}}
			for _, l := range list {
				rows = append(rows, []string{l.ID, l.Namespace, count(l.Entries), moment(l.ExpiresAt), firstOf(l.Owner, "-")})
			}
			return c.table(rows)
		})
}
