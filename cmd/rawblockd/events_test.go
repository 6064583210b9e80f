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
	if r.code != exitFailed || r.errors != goOn+"rawblockd: events: the daemon ended the stream; it is being stopped, most likely: start this again when it is back\n" {
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
