// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
)

// inputPart is how much of stdin is read at once, in bytes.
const inputPart = 64 << 10

type readerFunc func(p []byte) (int, error)

// Read implements io.Reader.
func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// input is stdin until ctx ends. A read of a terminal or a pipe cannot be called off:
// the one under way is left behind, with memory of its own, and whatever it takes is
// lost. So there is one input of a command.
func (c *cli) input(ctx context.Context) io.Reader {
	type result struct {
		n   int
		err error
	}
	buf, done := make([]byte, inputPart), make(chan result, 1)
	return readerFunc(func(p []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		part := buf[:min(len(p), len(buf))]
		go func() {
			n, err := c.stdin.Read(part)
			done <- result{n, err}
		}()
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case r := <-done:
			return copy(p, part[:r.n]), r.err
		}
	})
}

// askYes reads the answer to a question, and takes nothing but "yes" for a yes.
func (c *cli) askYes(ctx context.Context, about string) error {
	fmt.Fprint(c.stderr, "Type yes to go on: ")
	line, _ := bufio.NewReader(c.input(ctx)).ReadString('\n') // the end of the input is no yes
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case strings.TrimSpace(line) != "yes":
		return fmt.Errorf("%s: not confirmed, nothing was changed; answer yes, or give --yes", about)
	}
	return nil
}
