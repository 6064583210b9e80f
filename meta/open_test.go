// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

func TestNewerLayoutIsRefused(t *testing.T) {
	mem := vfs.NewMem()
	for name, c := range map[string]struct {
		edit func(b []byte) []byte
		want error
	}{
		"version":       {func(b []byte) []byte { b[0]++; return b }, ErrIncompat},
		"compat bit":    {func(b []byte) []byte { b[1] = 1; return b }, nil},
		"ro_compat bit": {func(b []byte) []byte { b[5] = 1; return b }, ErrIncompat},
		"incompat bit":  {func(b []byte) []byte { b[9] = 1; return b }, ErrIncompat},
		"longer":        {func(b []byte) []byte { return append(b, 1) }, nil},
		"cut":           {func(b []byte) []byte { return b[:3] }, ErrRow},
	} {
		o := smallOptions(mem)
		o.Path = name
		db, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.pb.Set([]byte(keyVersion), c.edit(encodeVersion()), pebble.Sync); err != nil {
			t.Fatal(err)
		}
		mustClose(t, db)
		db, err = Open(o)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		if err == nil {
			mustClose(t, db)
		}
	}
}

func TestLeftoversOfEarlierTriesAreRemoved(t *testing.T) {
	mem := vfs.NewMem()
	old := mem.PathJoin(testPath, tmpPrefix+"old")
	if err := mem.MkdirAll(mem.PathJoin(old, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	mustClose(t, mustOpen(t, mem))
	names, err := mem.List(testPath)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if strings.HasPrefix(n, tmpPrefix) {
			t.Errorf("%s is still there", n)
		}
	}
}

func TestSecondOpenIsRefused(t *testing.T) {
	for name, o := range map[string]Options{"disk": {Path: t.TempDir()}, "memory": smallOptions(vfs.NewMem())} {
		db, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Open(o); !errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), o.Path) {
			t.Errorf("%s: got %v, want ErrHeld with the path", name, err)
		}
		mustClose(t, db)
		if db, err = Open(o); err != nil {
			t.Fatalf("%s: after Close: %v", name, err)
		}
		mustClose(t, db)
	}
}

const holdEnv = "META_TEST_HOLD"

// TestSecondProcessIsTold: the error names the process that holds the directory.
func TestSecondProcessIsTold(t *testing.T) {
	if dir := os.Getenv(holdEnv); dir != "" {
		hold(dir)
		return
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestSecondProcessIsTold$")
	cmd.Env = append(os.Environ(), holdEnv+"="+dir)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(stdout, make([]byte, len("held"))); err != nil {
		t.Fatal(err)
	}
	_, err = Open(Options{Path: dir})
	if want := fmt.Sprintf("process %d ", cmd.Process.Pid); !errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want ErrHeld by %s", err, want)
	}
	if err := errors.Join(stdin.Close(), cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	db, err := Open(Options{Path: dir})
	if err != nil {
		t.Fatalf("after the holder's end: %v", err)
	}
	mustClose(t, db)
}

// hold is the other process: it opens, says so, and ends with its input.
func hold(dir string) {
	db, err := Open(Options{Path: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print("held")
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = db.Close()
}
