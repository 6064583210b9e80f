// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rawblockd/rawblockd/api"
)

// TestScrub: what is whole stays, what was spoilt on the device is found and
// gone, and whoever waited is told.
func TestScrub(t *testing.T) {
	dir := shortDir(t)
	_, addr := serveIn(t, dir)
	at := func(args ...string) []string { return append(args, "--addr", addr) }
	bad := strings.Repeat("to be spoilt ", 1000)
	for key, payload := range map[string]string{"good": "stays", "bad": bad} {
		if r := commandWith(t.Context(), payload, at("put", key)...); r.code != exitOK {
			t.Fatalf("put: %+v", r)
		}
	}
	if got := ok(t, at("scrub", "dev", "--wait")...); got != "dev: scrub done, 30 slots, 0 bad\n" {
		t.Errorf("nothing is bad: got %q", got)
	}
	spoil(t, filepath.Join(dir, "slab.img"), bad)
	r := command(t, at("scrub", "dev", "--wait")...)
	if r.code != exitFailed || r.out != "dev: scrub done, 30 slots, 1 bad\n" || !strings.HasPrefix(r.errors, `rawblockd: scrub "dev": 1 entries were bad and are gone: see the daemon's log`) {
		t.Errorf("one is bad: got %+v", r)
	}
	if got := ok(t, at("ls")...); got != "good\n" {
		t.Errorf("left: got %q", got)
	}
	var s api.SlabStatus
	asJSON(t, &s, at("scrub", "dev", "--wait", "--json")...)
	if s.Name != "dev" || s.Scrub == nil || s.Scrub.Running || s.Scrub.Done != 30 || s.Scrub.Bad != 0 {
		t.Errorf("--json: got %+v", s.Scrub)
	}
	if got := ok(t, at("scrub", "dev")...); !strings.HasPrefix(got, "dev: scrub under way, ") && !strings.HasPrefix(got, "dev: scrub done, ") {
		t.Errorf("without --wait: got %q", got)
	}
	args := at("scrub", "nvme9")
	wantLine(t, command(t, args...), args, exitFailed, "unknown slab")
}

// spoil changes one byte of the payload that begins so, on the device.
func spoil(t *testing.T, path, payload string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	off := bytes.Index(text, []byte(payload))
	if off < 0 {
		t.Fatal("the payload is not on the device")
	}
	if _, err := f.WriteAt([]byte("T"), int64(off)); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestScrubText: how a scrub is told, and what of it is a failure.
func TestScrubText(t *testing.T) {
	for _, tt := range []struct {
		p    *api.ScrubStatus
		text string
		err  string
	}{
		{nil, "no scrub since the daemon's start", "was started anew meanwhile"},
		{&api.ScrubStatus{Running: true, Done: 5, Total: 1000}, "scrub under way, 5 of 1,000 slots, 0 bad", ""},
		{&api.ScrubStatus{Done: 5, Total: 10, Stopped: "offline", EndedAt: time.Now()}, "scrub stopped at 5 of 10 slots, 0 bad: offline", "did not come to its end"},
		{&api.ScrubStatus{Done: 10, Total: 10, Bad: 3}, "scrub done, 10 slots, 3 bad", "3 entries were bad"},
	} {
		if got := scrubText(tt.p); got != tt.text {
			t.Errorf("got %q, want %q", got, tt.text)
		}
		err := scrubVerdict(api.SlabStatus{Name: "a", Scrub: tt.p}, true)
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: got %v, want %q", tt.text, err, tt.err)
		}
		if err := scrubVerdict(api.SlabStatus{Scrub: tt.p}, false); err != nil {
			t.Errorf("%s: nobody waited, got %v", tt.text, err)
		}
	}
}

// TestScrubUnderWay: another one is no scrub more, but can be waited for.
func TestScrubUnderWay(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	looks := 0
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.Header().Set("Content-Type", api.MediaProblem)
			w.WriteHeader(http.StatusConflict)
			_ = json.NewEncoder(w).Encode(api.NewProblem(http.StatusConflict, api.CodeScrubbing, "slab", "dev"))
			return
		}
		looks++
		_ = json.NewEncoder(w).Encode(api.SlabsResponse{Slabs: []api.SlabStatus{{Name: "dev", Scrub: &api.ScrubStatus{Running: looks < 3, Done: 7, Total: 7}}}})
	}))
	_ = srv.Listener.Close()
	srv.Listener = l
	srv.Start()
	t.Cleanup(srv.Close)
	args := []string{"scrub", "dev", "--addr", "unix:" + path}
	wantLine(t, command(t, args...), args, exitFailed, "a scrub of the slab is under way (slab): dev; to wait for it, give --wait")
	if got := ok(t, append(args, "--wait")...); got != "dev: scrub done, 7 slots, 0 bad\n" || looks != 3 {
		t.Errorf("--wait: got %q after %d looks", got, looks)
	}
}
