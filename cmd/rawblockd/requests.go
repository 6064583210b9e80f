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

func (c *cli) requestsVerb() *cobra.Command {
	return c.daemonCommand("requests", "List the requests being answered, the oldest first, and where each of them is", cobra.NoArgs,
		func(ctx context.Context, cl *client.Client, t *target, _ []string) error {
			res, err := cl.Requests(ctx)
			if err != nil {
				return adminHint(err, "the list of requests")
			}
			if t.json {
				return c.printJSON(res)
			}
			if err := c.table(requestRows(res.Requests)); err != nil {
				return err
			}
			if left := res.Total - len(res.Requests); left > 0 {
				_, err = fmt.Fprintf(c.stdout, "and %s younger ones\n", count(left))
			}
			return err
		})
}

func requestRows(all []api.RequestStatus) [][]string {
	rows := [][]string{{"ID", "AGE", "STAGE", "SLAB", "METHOD", "ROUTE", "NAMESPACE", "KEYS", "IN", "OUT", "REMOTE"}}
	for _, r := range all {
		rows = append(rows, []string{
			r.ID, (time.Duration(r.AgeMS) * time.Millisecond).String(), r.Stage, firstOf(r.Slab, "-"), r.Method, firstOf(r.Route, "-"),
			firstOf(r.Namespace, "-"), count(r.Keys), size(r.BytesIn), size(r.BytesOut), firstOf(r.Remote, "-"),
		})
	}
	return rows
}
