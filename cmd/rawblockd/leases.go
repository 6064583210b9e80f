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

// leasesVerb lists leases by itself, too.
func (c *cli) leasesVerb() *cobra.Command {
	cmd := c.clientCommand("leases", "List, show, renew and release leases", cobra.NoArgs, c.listLeases)
	cmd.AddCommand(
		c.daemonCommand("list", "List the leases in force, of all namespaces", cobra.NoArgs, c.listLeases),
		c.leasesShowVerb(), c.leasesRenewVerb(), c.leasesReleaseVerb(),
	)
	return cmd
}

func (c *cli) listLeases(ctx context.Context, cl *client.Client, t *target, _ []string) error {
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
}

// leaseCommand makes a verb about leases that its arguments name.
func (c *cli) leaseCommand(use, short string, args cobra.PositionalArgs, do clientFunc) *cobra.Command {
	cmd, t := c.targetCommand(use, short, args, do)
	cmd.ValidArgsFunction = t.complete(cmd, leaseIDs)
	return cmd
}

func (c *cli) leasesShowVerb() *cobra.Command {
	return c.leaseCommand("show LEASE", "Show a lease", cobra.ExactArgs(1),
		func(ctx context.Context, cl *client.Client, t *target, args []string) error {
			l, err := cl.Lease(ctx, args[0])
			if err != nil {
				return err
			}
			return c.showLease(l, t.json)
		})
}

func (c *cli) leasesRenewVerb() *cobra.Command {
	var ttl time.Duration
	cmd := c.leaseCommand("renew LEASE", "Let a lease last for its time from now on", cobra.ExactArgs(1),
		func(ctx context.Context, cl *client.Client, t *target, args []string) error {
			l, err := cl.Renew(ctx, args[0], ttl)
			if err != nil {
				return err
			}
			return c.showLease(l, t.json)
		})
	cmd.Flags().Var(ttlFlag{&ttl}, "ttl", "how long it lasts from now on (default: as long as it was given first; at most leases.max_ttl)")
	return cmd
}

func (c *cli) showLease(l api.Lease, asJSON bool) error {
	if asJSON {
		return c.printJSON(l)
	}
	return c.table([][]string{
		{"lease", l.ID},
		{"namespace", l.Namespace},
		{"entries", count(l.Entries)},
		{"ttl", (time.Duration(l.TTLMS) * time.Millisecond).String()},
		{"expires", moment(l.ExpiresAt)},
		{"owner", firstOf(l.Owner, "-")},
	})
}

func (c *cli) leasesReleaseVerb() *cobra.Command {
	return c.leaseCommand("release LEASE...", "End leases, whatever namespace they are in", cobra.MinimumNArgs(1),
		func(ctx context.Context, cl *client.Client, t *target, args []string) error {
			var sum api.UnpinResponse
			gone := 0
			for _, id := range args {
				res, err := cl.Release(ctx, id)
				if err != nil {
					return err
				}
				sum.Released, sum.Stale = sum.Released+res.Released, sum.Stale+res.Stale
				if res.Released+res.Stale == 0 {
					gone++
				}
			}
			var err error
			if t.json {
				err = c.printJSON(sum)
			} else {
				_, err = fmt.Fprintf(c.stdout, "%d released, %d stale\n", sum.Released, sum.Stale)
			}
			if gone > 0 {
				err = errors.Join(err, fmt.Errorf("leases release: %d of %d had ended already, or never were", gone, len(args)))
			}
			return err
		})
}
