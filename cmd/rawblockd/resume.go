// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/rawblockd/rawblockd/client"
)

func (c *cli) resumeVerb() *cobra.Command {
	return c.slabCommand("resume SLAB", "Let stores to a drained slab again", (*client.Client).Resume)
}
