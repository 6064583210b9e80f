// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rawblockd/rawblockd/api"
)

// TestTopOnce: one report for scripts, as text and as JSON.
func TestTopOnce(t *testing.T) {
	_, addr := serveIn(t, shortDir(t))
	at := func(args ...string) []string { return append(args, "--addr", addr, "--once", "--interval", "20ms") }
	if r := commandWith(t.Context(), strings.Repeat("x", 3<<20), "put", "k", "--addr", addr); r.code != exitOK {
		t.Fatalf("put: %+v", r)
	}
	ok(t, "lookup", "k", "none", "--addr", addr)
	out := ok(t, at("top")...)
	for _, want := range []string{
		": serving, ", "1 entries, 0 leases, 0 pins (0 B), 0 requests, 0 changes queued\n", " hits/s, ",
		"SLAB ", "IN FLIGHT", "READ/S", "WRITE/S", "\ndev   online  2     ",
		"KEYS    OK/S  OTHER/S  OK %  OK  OTHER\nlookup  0     0        -     1   1\nstore   0     0        -     1   0\n",
		"NAMESPACE  ENTRIES  SLOT BYTES  QUOTA  PINNED\ndefault    1        4.0 MiB     none   0 B\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "\x1b") {
		t.Errorf("escapes where nobody watches: %q", out)
	}
	var r topReport
	asJSON(t, &r, at("top", "--json")...)
	if !r.Ready || r.Entries != 1 || len(r.Slabs) != 1 || r.Slabs[0].Slots.Used != 2 || r.Seconds < 0.02 || len(r.Namespaces) != 1 || r.Requests != 0 {
		t.Errorf("--json: got %+v", r)
	}
}

// TestRates: what changed between two samples, for one second.
func TestRates(t *testing.T) {
	at := time.Unix(1000, 0)
	sample := func(instance string, after time.Duration, read, written, hits, misses uint64) topSample {
		return topSample{
			at: at.Add(after),
			StatusReport: api.StatusReport{
				Instance: instance,
				Slabs:    []api.SlabStatus{{Name: "a", Engine: &api.EngineStats{ReadBytes: read, WrittenBytes: written, Reads: read / 10, Flushes: written}}, {Name: "dead"}},
				Results:  map[string]map[api.Status]uint64{"lookup": {api.StatusOK: hits, api.StatusMissing: misses}, "store": {api.StatusOK: hits, api.StatusQuota: 2}},
			},
			requests: api.RequestsResponse{Total: 3, Requests: []api.RequestStatus{{ID: "1", Route: "/v1/batch/load"}, {ID: "2", Route: "/v1/requests"}}},
		}
	}
	before := sample("i", 0, 100, 10, 5, 1)
	r := rates(before, sample("i", 2*time.Second, 300, 30, 25, 5))
	s := r.Slabs[0]
	if s.ReadBytes != 100 || s.WrittenBytes != 10 || s.Reads != 10 || s.Flushes != 10 || r.Slabs[1].ReadBytes != 0 {
		t.Errorf("slabs: got %+v", r.Slabs)
	}
	if r.Hits != 10 || r.Misses != 2 || r.Requests != 2 || len(r.Oldest) != 1 || r.Oldest[0].ID != "1" {
		t.Errorf("got %+v", r)
	}
	if len(r.Ops) != 2 || r.Ops[0] != (topOp{Op: "lookup", Hits: 10, Misses: 2, OK: 25, Other: 5}) || r.Ops[1] != (topOp{Op: "store", Hits: 10, OK: 25, Other: 2}) {
		t.Errorf("ops: got %+v", r.Ops)
	}
	for name, now := range map[string]topSample{"another instance": sample("j", time.Second, 300, 30, 25, 5), "the same moment": before, "a counter begun anew": sample("i", time.Second, 1, 1, 1, 0)} {
		if r := rates(before, now); r.Slabs[0].ReadBytes != 0 || r.Hits != 0 {
			t.Errorf("%s: got %+v", name, r)
		}
	}
}

// TestTopOnATerminal: it has the other screen to itself, refreshes in place, and
// gives the screen back when it is interrupted, with exit code 0.
func TestTopOnATerminal(t *testing.T) {
	s, addr := serveIn(t, shortDir(t))
	w := newTerminal(t)
	ctx, cancel := context.WithCancel(t.Context())
	code := make(chan int)
	go func() { code <- run(ctx, []string{"top", "--addr", addr, "--interval", "10ms"}, w.end, w.end, w.end) }()
	w.await(func(text string) bool {
		return strings.Count(text, homeScreen) >= 3 && strings.Contains(text, "NAMESPACE")
	})
	cancel()
	if got := <-code; got != exitOK {
		t.Errorf("got code %d: %q", got, w.text())
	}
	w.await(func(text string) bool { return strings.HasSuffix(text, leaveScreen) })
	text := w.text()
	if !strings.HasPrefix(text, enterScreen) || strings.Count(text, enterScreen) != 1 || strings.Count(text, leaveScreen) != 1 {
		t.Errorf("got %q", text)
	}
	s.end()
}

// TestTopLosesTheDaemon: the screen is given back before the error is shown.
func TestTopLosesTheDaemon(t *testing.T) {
	s, addr := serveIn(t, shortDir(t))
	w := newTerminal(t)
	code := make(chan int)
	go func() {
		code <- run(t.Context(), []string{"top", "--addr", addr, "--interval", "10ms"}, w.end, w.end, w.end)
	}()
	w.await(func(text string) bool { return strings.Contains(text, "NAMESPACE") })
	s.end()
	if got := <-code; got != exitFailed {
		t.Errorf("got code %d", got)
	}
	w.await(func(text string) bool { return strings.Contains(text, leaveScreen+"rawblockd: GET /v1/") })
}

// TestTopStream: where nobody watches, one report after the other.
func TestTopStream(t *testing.T) {
	_, addr := serveIn(t, shortDir(t))
	ctx, cancel := context.WithCancel(t.Context())
	out := &countWriter{until: 3, full: cancel}
	var errs bytes.Buffer
	if code := run(ctx, []string{"top", "--addr", addr, "--interval", "10ms", "--json"}, strings.NewReader(""), out, &errs); code != exitOK {
		t.Errorf("got code %d: %s", code, errs.String())
	}
	for line := range strings.Lines(out.text.String()) {
		var r topReport
		if err := json.Unmarshal([]byte(line), &r); err != nil || !r.Ready {
			t.Errorf("got %q: %v", line, err)
		}
	}
}

// countWriter calls full when it has been written to so often.
type countWriter struct {
	text  bytes.Buffer
	until int
	full  func()
}

// Write implements io.Writer.
func (w *countWriter) Write(p []byte) (int, error) {
	if w.until--; w.until == 0 {
		w.full()
	}
	return w.text.Write(p)
}

func TestClip(t *testing.T) {
	for in, want := range map[string]string{"": "", "abc": "abc", "abcd": "abc", "äöüx": "äöü", "a\xffbc": "a\xffb"} {
		if got := string(clip([]byte(in), 3)); got != want {
			t.Errorf("clip(%q): got %q, want %q", in, got, want)
		}
	}
}

// TestScreenIsClipped: no more lines than the window has, and none wider.
func TestScreenIsClipped(t *testing.T) {
	w := newTerminal(t)
	s := &screen{out: w.end}
	r := rates(topSample{}, topSample{StatusReport: api.StatusReport{Instance: strings.Repeat("x", 200), Namespaces: make([]api.NamespaceStatus, 50)}})
	if width, height := s.size(); width != 80 || height != 24 {
		t.Skipf("a new terminal has a size here: %d×%d", width, height)
	}
	if err := s.show(r); err != nil {
		t.Fatal(err)
	}
	w.await(func(text string) bool { return strings.HasSuffix(text, restBelow) })
	lines := strings.Split(w.text(), restOfLine)
	if len(lines) != 25 { // 24, and what is behind the last
		t.Errorf("got %d lines", len(lines)-1)
	}
	for _, l := range lines {
		if l = strings.TrimPrefix(strings.Trim(l, "\r\n"), homeScreen); len(l) > 80 {
			t.Errorf("too wide: %q", l)
		}
	}
}
