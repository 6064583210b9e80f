// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// silent is a stdin from which nothing comes until it is let go.
type silent struct{ began, release chan struct{} }

func (s *silent) Read([]byte) (int, error) {
	close(s.began)
	<-s.release
	return 0, io.EOF
}

// Who interrupts a command that reads stdin is done with it at once: nothing can call
// off the read of a terminal.
func TestInterruptedWhileReadingStdin(t *testing.T) {
	_, addr := serveIn(t, shortDir(t))
	device := filepath.Join(t.TempDir(), "slab")
	ok(t, "init", device, "--size", "8MiB", "--slot-size", "64KiB")
	before, err := os.ReadFile(device)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"put", "k", "--addr", addr},
		{"lookup", "-", "--addr", addr},
		{"rm", "-", "--addr", addr},
		{"unpin", "some", "-", "--addr", addr},
		{"init", device, "--wipe", "--slot-size", "4KiB"},
	} {
		t.Run(args[0], func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			stdin := &silent{make(chan struct{}), make(chan struct{})}
			var out, errs bytes.Buffer
			code := make(chan int)
			go func() { code <- run(ctx, args, stdin, &out, &errs) }()
			<-stdin.began
			cancel()
			got := <-code
			close(stdin.release)
			if got != exitFailed || !bytes.HasSuffix(errs.Bytes(), []byte("rawblockd: interrupted\n")) || out.Len() > 0 {
				t.Errorf("exit code %d, %q, %q", got, out.String(), errs.String())
			}
		})
	}
	if after, err := os.ReadFile(device); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the device was changed: %v", err)
	}
}
