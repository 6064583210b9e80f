// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"
)

// confirm asks on the terminal whether to go on with what is said, and takes
// nothing but "yes" for a yes. Without a terminal there is nobody to ask.
func (c *cli) confirm(ctx context.Context, verb, what string) error {
	if !isTerminal(c.stdin) {
		return usagef("%s: %s: there is no terminal to ask on: give --yes if that is wanted", verb, what)
	}
	fmt.Fprintf(c.stderr, "%s\nType yes to go on: ", what)
	answer := make(chan string, 1)
	go func() { // a read of the terminal cannot be called off
		line, _ := bufio.NewReader(c.stdin).ReadString('\n') // the end of the input is no yes
		answer <- strings.TrimSpace(line)
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case got := <-answer:
		if got != "yes" {
			return fmt.Errorf("%s: not confirmed, nothing was changed; answer yes, or give --yes", verb)
		}
	}
	return nil
}
