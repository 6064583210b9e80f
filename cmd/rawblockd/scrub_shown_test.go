// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rawblockd/rawblockd/api"
)

// scrubSteps is a daemon whose slab is as in the steps, from one request to the
// next; the last one stays.
func scrubSteps(t *testing.T, steps ...api.ScrubStatus) (addr string) {
	t.Helper()
	path := filepath.Join(shortDir(t), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := api.SlabStatus{Name: "dev", Scrub: &steps[min(int(asked.Add(1)), len(steps))-1]}
		if r.Method == http.MethodPost {
			_ = json.NewEncoder(w).Encode(now)
		} else {
			_ = json.NewEncoder(w).Encode(api.SlabsResponse{Slabs: []api.SlabStatus{{Name: "other"}, now}})
		}
	}))
	_ = srv.Listener.Close()
	srv.Listener = l
	srv.Start()
	t.Cleanup(srv.Close)
	return "unix:" + path
}

func running(done uint32, bad int) api.ScrubStatus {
	return api.ScrubStatus{Running: true, Done: done, Total: 2000, Bad: bad}
}

// TestScrubOnATerminal shows how far it is, and prints only how it ended.
func TestScrubOnATerminal(t *testing.T) {
	ended := api.ScrubStatus{Done: 1500, Total: 2000, Stopped: "it is offline"}
	addr := scrubSteps(t, running(0, 0), running(500, 0), running(1000, 0), ended)
	w := newTerminal(t)
	var out bytes.Buffer
	if code := run(t.Context(), []string{"scrub", "dev", "--wait", "--addr", addr}, strings.NewReader(""), &out, w.end); code != exitFailed {
		t.Errorf("got code %d of a scrub that was stopped", code)
	}
	w.await(func(text string) bool {
		return strings.Contains(text, "scrub dev") && strings.Contains(text, "500/2000") && strings.Contains(text, "1000/2000") && strings.Contains(text, "rawblockd: scrub \"dev\": it did not come to its end")
	})
	if got := out.String(); got != "dev: scrub stopped at 1,500 of 2,000 slots, 0 bad: it is offline\n" {
		t.Errorf("got %q", got)
	}
}

// TestScrubInTop: top and status show the one that runs, and none that has ended.
func TestScrubInTop(t *testing.T) {
	now := running(500, 1)
	ended := api.ScrubStatus{Done: 2000, Total: 2000, Bad: 1}
	for _, p := range []*api.ScrubStatus{nil, &now, &ended} {
		slabs := api.StatusReport{Slabs: []api.SlabStatus{{Name: "dev", Health: "online", Scrub: p}}}
		var top, status bytes.Buffer
		sample := topSample{StatusReport: slabs}
		if err := rates(sample, sample).write(&top); err != nil {
			t.Fatal(err)
		}
		if err := (&cli{stdout: &status}).printStatus(slabs); err != nil {
			t.Fatal(err)
		}
		want := " misses/s\n\nSLAB "
		if p == &now {
			want = " misses/s\ndev: scrub under way, 500 of 2,000 slots, 1 bad\n\nSLAB "
		}
		if got := top.String(); !strings.Contains(got, want) {
			t.Errorf("%+v: no %q in\n%s", p, want, got)
		}
		if got := status.String(); strings.Contains(got, "online, scrub at 25 %") != (p == &now) {
			t.Errorf("%+v: got\n%s", p, got)
		}
	}
}
