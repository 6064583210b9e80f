// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/rawblockd/rawblockd/api"
)

// TestClear is C22 on the command line: one namespace of two is cleared, pinned
// entries excepted.
func TestClear(t *testing.T) {
	_, addr := serveIn(t, shortDir(t))
	at := func(args ...string) []string { return append(args, "--addr", addr) }
	ok(t, at("namespace", "set", "other")...)
	for _, ns := range []string{"default", "other"} {
		for _, key := range []string{"a", "b", "clear"} {
			if r := commandWith(t.Context(), "x", at("put", key, "-n", ns)...); r.code != exitOK {
				t.Fatalf("put: %+v", r)
			}
		}
	}
	ok(t, at("pin", "b", "-n", "other")...)
	wantLine(t, commandWith(t.Context(), "yes\n", at("clear", "-n", "other")...), nil, exitUsage,
		`clear: clear namespace "other" at `+addr+`, which holds 3 entries in 6.0 MiB of slots: there is no terminal to ask on: give --yes`)
	if got := ok(t, at("clear", "-n", "other", "--yes")...); got != "other: 2 removed, 1 pinned ones stay\n" {
		t.Errorf("clear: got %q", got)
	}
	if got := ok(t, at("ls", "-n", "other")...); got != "b\n" {
		t.Errorf("cleared: got %q", got)
	}
	if got := ok(t, at("ls")...); !sameLines(got, "a\nb\nclear\n") {
		t.Errorf("the other namespace: got %q", got)
	}
	wantLine(t, command(t, at("clear", "-n", "nobody", "--yes")...), nil, exitFailed, "unknown namespace")
	var res api.ClearResponse
	asJSON(t, &res, at("clear", "--yes", "--json")...)
	if res.Removed != 3 || res.Pinned != 0 {
		t.Errorf("clear --json: got %+v", res)
	}
}

// TestClearAsks: on a terminal, and only "yes" is a yes.
func TestClearAsks(t *testing.T) {
	_, addr := serveIn(t, shortDir(t))
	for _, tt := range []struct {
		answer string
		code   int
		left   string
	}{
		{"no\n", exitFailed, "k\n"},
		{"y\n", exitFailed, "k\n"},
		{"\x04", exitFailed, "k\n"}, // the end of the input
		{"yes\n", exitOK, ""},
	} {
		if r := commandWith(t.Context(), "x", "put", "k", "--addr", addr, "--overwrite"); r.code != exitOK {
			t.Fatalf("put: %+v", r)
		}
		w := newTerminal(t)
		code := make(chan int)
		var out, errs bytes.Buffer
		go func() { code <- run(t.Context(), []string{"clear", "--addr", addr}, w.end, &out, w.end) }()
		w.await(func(text string) bool { return strings.HasSuffix(text, "Type yes to go on: ") })
		if !strings.Contains(w.text(), `clear namespace "default" at `+addr+", which holds 1 entries in 2.0 MiB of slots") {
			t.Errorf("the question: %q", w.text())
		}
		w.types(tt.answer)
		if got := <-code; got != tt.code {
			t.Errorf("%q: got code %d, want %d: %s", tt.answer, got, tt.code, errs.String())
		}
		if got := ok(t, "ls", "--addr", addr); got != tt.left {
			t.Errorf("%q: left %q, want %q", tt.answer, got, tt.left)
		}
		if tt.code == exitFailed {
			w.await(func(text string) bool { return strings.Contains(text, "not confirmed, nothing was changed") })
		}
	}
}

// TestClearInterrupted: Ctrl-C at the question is no yes.
func TestClearInterrupted(t *testing.T) {
	_, addr := serveIn(t, shortDir(t))
	w := newTerminal(t)
	ctx, cancel := context.WithCancel(t.Context())
	code := make(chan int)
	go func() { code <- run(ctx, []string{"clear", "--addr", addr}, w.end, w.end, w.end) }()
	w.await(func(text string) bool { return strings.HasSuffix(text, "Type yes to go on: ") })
	cancel()
	if got := <-code; got != exitFailed {
		t.Errorf("got code %d", got)
	}
	w.await(func(text string) bool { return strings.HasSuffix(text, "rawblockd: interrupted\r\n") })
	w.types("\n") // lets the reader of the terminal go
}
