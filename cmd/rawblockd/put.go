// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/client"
)

func (c *cli) putVerb() *cobra.Command {
	var o client.PutOptions
	cmd := c.clientCommand("put KEY [FILE]", "Store a file, or stdin, under a key", cobra.RangeArgs(1, 2),
		func(ctx context.Context, cl *client.Client, t *target, args []string) error {
			src := "-"
			if len(args) == 2 {
				src = args[1]
			}
			f, n, err := c.source(ctx, src)
			if err != nil {
				return fmt.Errorf("put %q: %w", args[0], err)
			}
			defer func() { _ = f.Close() }() // it was only read
			if n == 0 {
				return fmt.Errorf("put %q: %s is empty: a payload has at least one byte", args[0], sourceName(src))
			}
			bar, done := c.progress(args[0], n)
			res, err := cl.Put(ctx, args[0], io.TeeReader(f, bar), n, o)
			done()
			switch s, _ := client.StatusOf(err); s {
			case api.StatusExists:
				return fmt.Errorf("%w; to replace it, give --overwrite", err)
			case api.StatusPinned:
				return fmt.Errorf("%w; %s", err, pinnedAdvice)
			}
			if err != nil {
				return err
			}
			if t.json {
				return c.printJSON(res)
			}
			_, err = fmt.Fprintf(c.stdout, "%s: %s bytes in %s of slots\n", args[0], count(n), size(res.SlotBytes))
			return err
		})
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 1 {
			return nil, cobra.ShellCompDirectiveDefault // a file
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	cmd.Flags().BoolVar(&o.Overwrite, "overwrite", false, "replace what is stored under the key")
	cmd.Flags().Var(ttlFlag{&o.TTL}, "ttl", "time to live (default: the namespace's)")
	return cmd
}

// source opens a file, or spools stdin: a PUT declares its length first.
func (c *cli) source(ctx context.Context, path string) (*os.File, int64, error) {
	if path == "-" {
		return c.spool(ctx)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", path, bare(err))
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file; to store what it gives, pipe it in", path)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, fi.Size(), nil
}

func sourceName(path string) string {
	if path == "-" {
		return "stdin"
	}
	return path
}

func (c *cli) spool(ctx context.Context) (*os.File, int64, error) {
	f, err := os.CreateTemp("", "rawblockd-put-*")
	if err != nil {
		return nil, 0, fmt.Errorf("spool stdin in %s: %w; $TMPDIR names another place", os.TempDir(), bare(err))
	}
	err = os.Remove(f.Name()) // the descriptor is enough
	var n int64
	if err == nil {
		n, err = io.Copy(f, c.input(ctx))
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("read stdin: %w", err), f.Close())
	}
	return f, n, nil
}
