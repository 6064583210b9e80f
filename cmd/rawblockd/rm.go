// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/client"
)

// pinnedAdvice is what to do about keys that leases protect.
const pinnedAdvice = "what is pinned waits for its leases to end (rawblockd leases shows them, rawblockd unpin ends them)"

func (c *cli) rmVerb() *cobra.Command {
	force := false
	cmd := c.clientCommand("rm KEY... | -", "Remove keys (- reads them from stdin, one a line)", cobra.MinimumNArgs(1),
		func(ctx context.Context, cl *client.Client, t *target, args []string) error {
			keys, err := t.keysOf(ctx, args)
			if err != nil {
				return err
			}
			res, err := cl.Remove(ctx, keys, force)
			if err != nil {
				return err
			}
			if t.json {
				err = c.printJSON(res)
			} else {
				err = c.printStatuses(keys, res.Results, fmt.Sprintf("%d of %d removed", res.Removed, len(keys)))
			}
			failed := failedKeys("rm", statusesOf(res.Results), api.StatusOK, api.StatusMissing, api.StatusDuplicate)
			if failed != nil && slices.Contains(statusesOf(res.Results), api.StatusPinned) {
				failed = fmt.Errorf("%w; %s, or give --force", failed, pinnedAdvice)
			}
			return errors.Join(err, failed)
		})
	cmd.Flags().BoolVar(&force, "force", false, "remove keys that leases pin, too")
	return cmd
}

// printStatuses prints a line for every key that is not simply ok, and a
// closing line.
func (c *cli) printStatuses(keys []string, results []api.StatusResult, closing string) error {
	var rows [][]string
	for i, r := range results {
		if r.Status != api.StatusOK && i < len(keys) {
			rows = append(rows, []string{string(r.Status), keys[i], r.Error})
		}
	}
	return c.table(append(rows, []string{closing}))
}

func statusesOf(results []api.StatusResult) []api.Status {
	out := make([]api.Status, len(results))
	for i, r := range results {
		out[i] = r.Status
	}
	return out
}
