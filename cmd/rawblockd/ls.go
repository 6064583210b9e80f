// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/client"
)

func (c *cli) lsVerb() *cobra.Command {
	long, limit := false, 0
	cmd := c.clientCommand("ls", "List the keys of a namespace in slot order", cobra.NoArgs,
		func(ctx context.Context, cl *client.Client, t *target, _ []string) error {
			if limit < 0 {
				return usagef("ls: --limit %d: want 0, for all, or more", limit)
			}
			n := 0
			for e, err := range cl.All(ctx) {
				if err != nil {
					return err
				}
				if err := c.printEntry(e, t.json, long); err != nil {
					return err
				}
				if n++; n == limit {
					return nil
				}
			}
			return nil
		})
	cmd.Flags().BoolVarP(&long, "long", "l", false, "print length, times and pins, too")
	cmd.Flags().IntVar(&limit, "limit", 0, "stop after so many (0: all)")
	cmd.Flags().Lookup("json").Usage = "print one JSON object a line"
	return cmd
}

// printEntry prints at once, not in a table: a namespace can have millions of
// keys.
func (c *cli) printEntry(e api.ListEntry, asJSON, long bool) error {
	if asJSON {
		return json.NewEncoder(c.stdout).Encode(e)
	}
	if !long {
		_, err := fmt.Fprintln(c.stdout, e.Key)
		return err
	}
	pin := "-"
	if e.Pinned {
		pin = "pinned"
	}
	_, err := fmt.Fprintf(c.stdout, "%14s  %s  %-19s  %-6s  %s\n", count(e.Bytes), moment(e.StoredAt), moment(e.ExpiresAt), pin, e.Key)
	return err
}
