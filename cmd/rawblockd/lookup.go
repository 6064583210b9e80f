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

func (c *cli) lookupVerb() *cobra.Command {
	var o client.LookupOptions
	var l client.Lease
	lease := false
	cmd := c.clientCommand("lookup KEY... | -", "Say which keys are stored (- reads them from stdin, one a line)", cobra.MinimumNArgs(1),
		func(ctx context.Context, cl *client.Client, t *target, args []string) error {
			keys, err := t.keysOf(ctx, args)
			if err != nil {
				return err
			}
			if !lease && l != (client.Lease{}) {
				return usagef("lookup: --ttl and --owner are for --lease: give that too, or leave them out")
			}
			if lease {
				o.Lease = &l
			}
			res, err := cl.Lookup(ctx, keys, o)
			if err != nil {
				return err
			}
			if t.json {
				return c.printJSON(res)
			}
			return c.printLookup(keys, res)
		})
	f := cmd.Flags()
	f.BoolVar(&o.Prefix, "prefix", false, "stop at the first miss")
	f.BoolVar(&lease, "lease", false, "pin the hits")
	leaseFlags(cmd, &l)
	return cmd
}

func leaseFlags(cmd *cobra.Command, l *client.Lease) {
	cmd.Flags().Var(ttlFlag{&l.TTL}, "ttl", "how long the lease lasts (default: leases.default_ttl)")
	cmd.Flags().StringVar(&l.Owner, "owner", "", "label of the lease, for people")
}

func (c *cli) printLookup(keys []string, res api.LookupResponse) error {
	rows := make([][]string, 0, len(keys)+1)
	for i, r := range res.Results {
		if i < len(keys) {
			rows = append(rows, []string{string(r.Status), count(r.Bytes), keys[i], r.Error})
		}
	}
	if err := c.table(append(rows, []string{fmt.Sprintf("%d hits, leading run %d", res.Hits, res.PrefixHits)})); err != nil {
		return err
	}
	return c.printLease(res.Lease)
}

func (c *cli) printLease(l *api.Lease) error {
	if l == nil {
		return nil
	}
	_, err := fmt.Fprintf(c.stdout, "lease %s: %d entries until %s (%v)\n",
		l.ID, l.Entries, moment(l.ExpiresAt), time.Duration(l.TTLMS)*time.Millisecond)
	return err
}
