// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
)

// confirm asks on the terminal whether to go on with what is said, and takes
// nothing but "yes" for a yes. Without a terminal there is nobody to ask.
func (c *cli) confirm(ctx context.Context, verb, what string) error {
	if !isTerminal(c.stdin) {
		return usagef("%s: %s: there is no terminal to ask on: give --yes if that is wanted", verb, what)
	}
	fmt.Fprintln(c.stderr, what)
	return c.askYes(ctx, verb)
}
