// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rawblockd/rawblockd/api"
)

// streamOf serves these lines as a stream of events, which then ends, or with
// stay lasts until whoever reads it leaves.
func streamOf(t *testing.T, stay bool, lines ...string) (addr string, query *string) {
	t.Helper()
	path := filepath.Join(shortDir(t), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	query = new(string)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*query = r.URL.RawQuery
		w.Header().Set("Content-Type", api.MediaNDJSON)
		w.Header().Set(api.HeaderInstance, "i1")
		for _, line := range lines {
			_, _ = fmt.Fprintln(w, line)
		}
		w.(http.Flusher).Flush()
		if stay {
			<-r.Context().Done()
		}
	}))
	_ = srv.Listener.Close()
	srv.Listener = l
	srv.Start()
	t.Cleanup(srv.Close)
	return "unix:" + path, query
}

func eventLines() []string {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	var out []string
	for i, e := range []api.Event{
		{Event: api.EventSnapshot, Namespace: "default", Key: "old", Bytes: 5},
		{Event: api.EventSynced},
		{Event: api.EventStored, Namespace: "default", Key: "new one", Bytes: 1_124_352},
		{Event: api.EventIdle},
		{Event: api.EventRemoved, Namespace: "default", Key: "old", Bytes: 5, Reason: api.RemovedByEviction},
	} {
		e.Seq, e.At = uint64(i+100), at
		b, _ := json.Marshal(e)
		out = append(out, string(b))
	}
	return out
}

// TestEventLines: columns, what is left out, and the daemon's own lines.
func TestEventLines(t *testing.T) {
	addr, query := streamOf(t, false, eventLines()...)
	const (
		snapshot = "2026-01-02 03:04:05  snapshot  -                       5  default       old\n"
		synced   = "2026-01-02 03:04:05  synced    -                       0  -             \n"
		stored   = "2026-01-02 03:04:05  stored    -               1,124,352  default       new one\n"
		removed  = "2026-01-02 03:04:05  removed   evicted                 5  default       old\n"
	)
	for _, tt := range []struct {
		args  []string
		want  string
		query string
	}{
		{nil, snapshot + synced + stored + removed, "follow=false&namespace=default"},
		{[]string{"--changes"}, synced + stored + removed, "follow=false&namespace=default"},
		{[]string{"--only", "removed,stored", "--all"}, stored + removed, "follow=false"},
		{[]string{"--only", "snapshot", "--changes", "-n", "x"}, snapshot, "follow=false&namespace=x"},
		{[]string{"--since", "7", "--instance", "i0"}, snapshot + synced + stored + removed, "follow=false&instance=i0&namespace=default&since=7"},
		{[]string{"--json"}, strings.Join(eventLines(), "\n") + "\n", "follow=false&namespace=default"},
	} {
		if got := ok(t, append([]string{"events", "--once", "--addr", addr}, tt.args...)...); got != tt.want || *query != tt.query {
			t.Errorf("%v: asked %q and got\n%swant %q and\n%s", tt.args, *query, got, tt.query, tt.want)
		}
	}
}

// TestEventsEnd: how a stream ends, and that a reader is told where to go on.
func TestEventsEnd(t *testing.T) {
	const goOn = "to go on from here: --since 104 --instance i1\n"
	addr, _ := streamOf(t, false, eventLines()...)
	r := command(t, "events", "--addr", addr)
	if r.code != exitFailed || r.errors != goOn+"rawblockd: events: the daemon ended the stream: it is being stopped, or what may be seen here was changed; start this again\n" {
		t.Errorf("ended by the daemon: got %+v", r)
	}
	addr, _ = streamOf(t, true, append(eventLines(), `{"seq":105,"event":"lost","at":"2026-01-02T03:04:05Z"}`)...)
	r = command(t, "events", "--addr", addr, "--json")
	if r.code != exitFailed || !strings.Contains(r.errors, "could not keep the events for a reader this slow: start again, with a snapshot") || !strings.HasSuffix(r.out, `"event":"lost","at":"2026-01-02T03:04:05Z"}`+"\n") {
		t.Errorf("lost: got %+v", r)
	}
	addr, _ = streamOf(t, false, append(eventLines(), `{"seq":`)...)
	r = command(t, "events", "--addr", addr)
	if r.code != exitFailed || !strings.HasPrefix(r.errors, goOn+"rawblockd: events at "+addr+": ") {
		t.Errorf("cut off: got %+v", r)
	}
	addr, _ = streamOf(t, true, eventLines()...)
	ctx, cancel := context.WithCancel(t.Context())
	out, errs := &countWriter{until: 4, full: cancel}, &countWriter{}
	if code := run(ctx, []string{"events", "--addr", addr}, strings.NewReader(""), out, errs); code != exitOK || errs.text.String() != goOn {
		t.Errorf("interrupted: got code %d, %q", code, errs.text.String())
	}
}

// TestEventsOfTheDaemon: what the verb follows is what happens.
func TestEventsOfTheDaemon(t *testing.T) {
	s, addr := serveIn(t, shortDir(t))
	at := func(args ...string) []string { return append(args, "--addr", addr) }
	put := func(key, ns string) {
		t.Helper()
		if r := commandWith(t.Context(), "hello", at("put", key, "-n", ns)...); r.code != exitOK {
			t.Fatalf("put: %+v", r)
		}
	}
	ok(t, at("namespace", "set", "other")...)
	put("a", "default")
	put("b", "other")
	if got := kinds(t, ok(t, at("events", "--once", "--json")...)); got != "snapshot default a, synced" {
		t.Errorf("--once: got %s", got)
	}
	if got := kinds(t, ok(t, at("events", "--once", "--json", "--all")...)); got != "snapshot default a, snapshot other b, synced" && got != "snapshot other b, snapshot default a, synced" {
		t.Errorf("--all: got %s", got)
	}

	seen := newSignalWriter("synced")
	ctx, cancel := context.WithCancel(t.Context())
	code := make(chan int)
	errs := newSignalWriter("to go on from here: --since ")
	go func() {
		code <- run(ctx, at("events", "--changes", "--json"), strings.NewReader(""), seen, errs)
	}()
	<-seen.seen
	removed := seen.await(`"reason":"removed"`)
	put("c", "default")
	put("d", "other")
	ok(t, at("rm", "a")...)
	<-removed
	cancel()
	if got := <-code; got != exitOK {
		t.Errorf("interrupted: got code %d: %s", got, errs)
	}
	if got := kinds(t, seen.String()); got != "synced, stored default c, removed default a" {
		t.Errorf("followed: got %s", got)
	}

	// What happened meanwhile comes to who says where he was.
	var since uint64
	var instance string
	if _, err := fmt.Sscanf(errs.String(), "to go on from here: --since %d --instance %s", &since, &instance); err != nil {
		t.Fatalf("%v: %s", err, errs)
	}
	put("e", "default")
	if got := kinds(t, ok(t, at("events", "--once", "--json", "--since", fmt.Sprint(since), "--instance", instance)...)); got != "stored default e, synced" {
		t.Errorf("going on: got %s", got)
	}
	if got := kinds(t, ok(t, at("events", "--once", "--json", "--only", "snapshot", "--since", fmt.Sprint(since), "--instance", "another")...)); got != "snapshot default c, snapshot default e" && got != "snapshot default e, snapshot default c" {
		t.Errorf("going on behind a restart: got %s", got)
	}
	args := at("events", "--once", "-n", "nobody")
	wantLine(t, command(t, args...), args, exitFailed, "unknown namespace")

	// A stop of the daemon ends the stream.
	seen = newSignalWriter("synced")
	go func() { code <- run(t.Context(), at("events"), strings.NewReader(""), seen, newSignalWriter("x")) }()
	<-seen.seen
	s.end()
	if got := <-code; got != exitFailed {
		t.Errorf("stopped: got code %d", got)
	}
}

// kinds sums up lines of JSON: kind, namespace and key of each, but idle ones.
func kinds(t *testing.T, lines string) string {
	t.Helper()
	var out []string
	for line := range strings.Lines(lines) {
		var e api.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if e.Event != api.EventIdle {
			out = append(out, strings.TrimSpace(e.Event+" "+strings.TrimSpace(e.Namespace+" "+e.Key)))
		}
	}
	return strings.Join(out, ", ")
}
