// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rawblockd/rawblockd/config"
	"github.com/rawblockd/rawblockd/internal/testdev"
)

func smallPlan() demoPlan {
	return demoPlan{keys: 4, big: 3<<20 + 100, small: 70_001, slotSize: config.MiB}
}

// runDemo runs the demo in a directory of its own, with this test binary as the
// daemon, and checks that it leaves nothing.
func runDemo(t *testing.T, ctx context.Context, out io.Writer) error {
	t.Helper()
	t.Setenv(beDaemon, "1")
	t.Setenv("RAWBLOCKD_LOG_LEVEL", "nonsense") // must not reach the demo's daemon
	dir := shortDir(t)
	var errs bytes.Buffer
	c := &cli{stdout: out, stderr: &errs}
	err := c.demo(ctx, dir, smallPlan())
	if left, _ := filepath.Glob(dir + "/*"); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	loops, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, l := range loops {
		if b, _ := os.ReadFile(l); strings.HasPrefix(string(b), dir) {
			t.Errorf("%s is still attached to %s", l, b)
		}
	}
	t.Logf("%s%s", out, errs.String())
	return err
}

func TestDemo(t *testing.T) {
	var out bytes.Buffer
	if err := runDemo(t, t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"4 acknowledged", "cut at", "none lost", "byte-exact", "0 wrong", "8 hits, all pinned", "refused: all pinned", "all removed", "all missing", "\nok in "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q", want)
		}
	}
}

// interrupter cancels when a word is printed.
type interrupter struct {
	bytes.Buffer
	word   string
	cancel func()
}

// Write implements io.Writer.
func (i *interrupter) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(i.word)) {
		i.cancel()
	}
	return i.Buffer.Write(p)
}

func TestDemoInterrupted(t *testing.T) {
	for _, word := range []string{"init", "start", "store", "kill -9 in"} {
		ctx, cancel := context.WithCancel(t.Context())
		err := runDemo(t, ctx, &interrupter{word: word, cancel: cancel})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("interrupted at %q: got %v", word, err)
		}
		cancel()
	}
}

// A directory may be named by a link, or relative to where the demo runs: the device is
// waited for all the same.
func TestDemoLoopBehindALink(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root is given loop devices")
	}
	dir := t.TempDir()
	testdev.FileIn(t, dir, 8<<20) // skips without direct I/O
	if err := os.WriteFile(filepath.Join(dir, "image"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	t.Chdir(link)
	for _, image := range []string{filepath.Join(link, "image"), "image"} {
		l, err := attachLoop(image)
		if err != nil {
			t.Skipf("no loop devices here: %v", err)
		}
		if !l.attached() {
			t.Errorf("%s: %s does not count as attached to it", image, l.path)
		}
		if err := l.detach(); err != nil || l.attached() {
			t.Errorf("%s: detach: %v, attached %v", image, err, l.attached())
		}
	}
}

func TestDemoWithoutSpace(t *testing.T) {
	plan := smallPlan()
	plan.big = 1 << 50
	err := (&cli{stdout: io.Discard, stderr: io.Discard}).demo(t.Context(), t.TempDir(), plan)
	if err == nil || !strings.Contains(err.Error(), "are needed: free ") || !strings.Contains(err.Error(), "--dir") {
		t.Errorf("got %v", err)
	}
	none := filepath.Join(t.TempDir(), "none")
	err = (&cli{stdout: io.Discard, stderr: io.Discard}).demo(t.Context(), none, smallPlan())
	if err == nil || !strings.Contains(err.Error(), strconv.Quote(none)) {
		t.Errorf("no such directory: got %v", err)
	}
}

// TestComparer: the demo's check must be able to fail.
func TestComparer(t *testing.T) {
	const n = 2<<20 + 5
	good, err := io.ReadAll(payloadOf("s", "k", n))
	if err != nil || len(good) != n {
		t.Fatalf("got %d bytes, %v", len(good), err)
	}
	flipped := bytes.Clone(good)
	flipped[n-1] ^= 1
	other, _ := io.ReadAll(payloadOf("s", "l", n))
	c := newComparer()
	if err := c.same(bytes.NewReader(good), "s", "k", n); err != nil {
		t.Errorf("right bytes: %v", err)
	}
	for name, b := range map[string][]byte{"one bit": flipped, "another key's": other, "longer": append(bytes.Clone(good), 0)} {
		if err := c.same(bytes.NewReader(b), "s", "k", n); !errors.Is(err, errWrongBytes) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if err := c.same(bytes.NewReader(good[:n-1]), "s", "k", n); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("shorter: got %v", err)
	}
}
