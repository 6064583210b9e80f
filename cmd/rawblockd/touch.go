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

func (c *cli) touchVerb() *cobra.Command {
	var ttl time.Duration
	cmd := c.clientCommand("touch KEY... | -", "Begin the time to live of keys anew (- reads them from stdin, one a line)", cobra.MinimumNArgs(1),
		func(ctx context.Context, cl *client.Client, t *target, args []string) error {
			keys, err := t.keysOf(ctx, args)
			if err != nil {
				return err
			}
			res, err := cl.Touch(ctx, keys, ttl)
			if err != nil {
				return err
			}
			if t.json {
				err = c.printJSON(res)
			} else {
				err = c.printStatuses(keys, res.Results, fmt.Sprintf("%d of %d touched", res.Touched, len(keys)))
			}
			return errors.Join(err, failedKeys("touch", statusesOf(res.Results), api.StatusOK, api.StatusDuplicate))
		})
	cmd.Flags().Var(ttlFlag{&ttl}, "ttl", "time to live from now on (default: the namespace's; where that has none the expiry stays)")
	return cmd
}
