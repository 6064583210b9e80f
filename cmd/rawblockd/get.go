// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/rawblockd/rawblockd/client"
)

func (c *cli) getVerb() *cobra.Command {
	out := ""
	cmd := c.clientCommand("get KEY", "Write a payload to stdout or to a file", cobra.ExactArgs(1),
		func(ctx context.Context, cl *client.Client, t *target, args []string) error {
			if t.json {
				return c.head(ctx, cl, args[0])
			}
			if fi, err := os.Stat(out); err == nil && fi.IsDir() {
				return fmt.Errorf("get %q: -o %s is a directory: name a file in it", args[0], out)
			}
			o, err := cl.Get(ctx, args[0])
			if err != nil {
				return err
			}
			defer func() { _ = o.Body.Close() }() // the copy has met every error there can be
			if out == "" {
				return c.receive(c.stdout, o, args[0])
			}
			return c.receiveFile(out, o, args[0])
		})
	cmd.Flags().StringVarP(&out, "output", "o", "", "file to write; it appears only when it is whole")
	cmd.Flags().Lookup("json").Usage = "print length and ETag as JSON instead of the payload"
	return cmd
}

func (c *cli) head(ctx context.Context, cl *client.Client, key string) error {
	o, err := cl.Head(ctx, key)
	if err != nil {
		return err
	}
	return c.printJSON(map[string]any{"key": key, "bytes": o.Bytes, "etag": o.ETag})
}

func (c *cli) receive(w io.Writer, o client.Object, key string) error {
	bar, done := c.progress(key, o.Bytes)
	defer done()
	n, err := io.Copy(io.MultiWriter(w, bar), o.Body)
	if err == nil && o.Bytes >= 0 && n < o.Bytes {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("get %q: %d of %d bytes received: %w", key, n, o.Bytes, bare(err))
	}
	return nil
}

// receiveFile writes beside the file and renames, so that nobody takes a part
// for the whole.
func (c *cli) receiveFile(path string, o client.Object, key string) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("get %q: -o %s: write in the directory %s: %w", key, path, dir, bare(err))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	err = c.receive(f, o, key)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("get %q: -o %s: %w", key, path, bare(err))
	}
	return nil
}

// bare takes the path off an error that would name one which the user never
// gave, or twice.
func bare(err error) error {
	if e := (*fs.PathError)(nil); errors.As(err, &e) {
		return e.Err
	}
	if e := (*os.LinkError)(nil); errors.As(err, &e) {
		return e.Err
	}
	return err
}
