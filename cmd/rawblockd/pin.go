// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/client"
)

func (c *cli) pinVerb() *cobra.Command {
	var l client.Lease
	cmd := c.clientCommand("pin KEY... | -", "Take a lease on keys (- reads them from stdin, one a line)", cobra.MinimumNArgs(1),
		func(ctx context.Context, cl *client.Client, t *target, args []string) error {
			keys, err := t.keysOf(ctx, args)
			if err != nil {
				return err
			}
			res, err := cl.Pin(ctx, keys, l)
			if err != nil {
				return err
			}
			if t.json {
				err = c.printJSON(res)
			} else {
				err = c.printPins(keys, res)
			}
			return errors.Join(err, failedKeys("pin", statusesOf(res.Results), api.StatusOK))
		})
	leaseFlags(cmd, &l)
	return cmd
}

func (c *cli) printPins(keys []string, res api.PinResponse) error {
	pinned := 0
	for _, r := range res.Results {
		if r.Status == api.StatusOK {
			pinned++
		}
	}
	if err := c.printStatuses(keys, res.Results, fmt.Sprintf("%d of %d pinned", pinned, len(keys))); err != nil {
		return err
	}
	return c.printLease(res.Lease)
}
