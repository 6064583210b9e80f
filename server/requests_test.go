// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/rawblockd/rawblockd/api"
)

// inFlight asks until fn finds among the requests in flight what it looks for.
func (r *rig) inFlight(fn func(api.RequestStatus) bool) api.RequestStatus {
	r.t.Helper()
	admin := r.admin()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		var res api.RequestsResponse
		must(r.t, json.Unmarshal(do(r.t, admin, "GET", "/v1/requests", nil).ok(r.t).body, &res))
		if res.Total < 1 || len(res.Requests) != res.Total {
			r.t.Fatalf("got %+v, want at least the asking one", res)
		}
		for _, q := range res.Requests {
			if fn(q) {
				return q
			}
		}
	}
	r.t.Fatal("no such request in flight")
	return api.RequestStatus{}
}

// TestRequestsInFlight: a load that the device keeps waiting is reported with its
// stage, slab and namespace, and is gone when it has ended; the log says where
// its time went.
func TestRequestsInFlight(t *testing.T) {
	var log bytes.Buffer
	r := newRig(t, func(o *rigOptions) { o.log = slog.New(slog.NewTextHandler(&log, nil)) })
	r.srv.SetSlow(time.Nanosecond)
	c := r.unix()
	mustStore(t, c, 300_000, "a", "b")
	release := r.dev.Hang(0, r.o.size)
	done := make(chan answer)
	go func() { done <- post(t, c, "/v1/batch/load", `{"namespace":"default","keys":["a","b","none"]}`, nil) }()
	got := r.inFlight(func(q api.RequestStatus) bool { return q.Stage == "device" })
	if got.Method != "POST" || got.Route != "/v1/batch/load" || got.Namespace != "default" || got.Keys != 3 ||
		got.Slab != "fast0" || got.BytesIn == 0 || got.BytesOut != 0 || got.Remote == "" {
		t.Errorf("got %+v", got)
	}
	release()
	(<-done).ok(t)
	r.inFlight(func(q api.RequestStatus) bool { return q.Route == "/v1/requests" && q.ID > got.ID })
	r.srv.SetSlow(0)
	do(t, c, "GET", "/v1/kv/default/a", nil).ok(t)
	var lines []string
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "slow request") && !strings.Contains(line, "/v1/requests") {
			lines = append(lines, line)
		}
	}
	if len(lines) != 2 || !strings.Contains(lines[0], "route=/v1/batch/store") {
		t.Fatalf("slow requests: got %q, want the store and the load", lines)
	}
	for _, want := range []string{"route=/v1/batch/load", "code=200", "namespace=default", "keys=3", "slab=fast0", "stages.device=", "bytes_out=60"} {
		if !strings.Contains(lines[1], want) {
			t.Errorf("no %q in %q", want, lines[1])
		}
	}
}

// The log tells of a slow request what it waited for, and for how long: to the moment,
// as time is simulated.
func TestSlowRequestsByStage(t *testing.T) {
	g, log := &gate{}, &logLines{}
	gated := func(o *rigOptions) { o.metaFS = errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(g.pass)) }
	paced(t, time.Hour, func(r *rig, dial func() net.Conn) {
		c := dialing(t, dial)
		mustStore(t, c, 1000, "there")
		mustStore(t, c, 200_000, "large")
		r.srv.SetSlow(2 * time.Second)
		put := func(key string) { do(t, c, "PUT", "/v1/kv/default/"+key, strings.NewReader("0123456789")).ok(t) }
		get := func(key string) { do(t, c, "GET", "/v1/kv/default/"+key, nil).ok(t) }
		for what, slow := range map[string]struct {
			stage string
			by    time.Duration
			hold  func(d time.Duration)
			ask   func()
		}{
			"body": {"client", 5 * time.Second, func(time.Duration) {}, func() {
				conn := newRaw(t, dial())
				defer conn.conn.Close()
				conn.write("PUT /v1/kv/default/slow HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n01234")
				time.Sleep(5 * time.Second)
				conn.write("56789")
				conn.answer().ok(t)
			}},
			"answer": {"client", 6 * time.Second, func(time.Duration) {}, func() {
				conn := newRaw(t, dial())
				defer conn.conn.Close()
				conn.write("GET /v1/kv/default/large HTTP/1.1\r\nHost: x\r\n\r\n")
				time.Sleep(6 * time.Second)
				conn.answer().ok(t)
			}},
			"device":          {"device", 3 * time.Second, func(d time.Duration) { time.AfterFunc(d, r.dev.Hang(0, r.o.size)) }, func() { get("there") }},
			"commit":          {"commit", 4 * time.Second, func(d time.Duration) { time.AfterFunc(d, g.close()) }, func() { put("commit") }},
			"memory to store": {"queue", 2 * time.Second, func(d time.Duration) { held(t, r, 0, d) }, func() { put("queue") }},
			"memory to load":  {"queue", 3 * time.Second, func(d time.Duration) { held(t, r, 0, d) }, func() { get("there") }},
		} {
			log.reset()
			slow.hold(slow.by)
			slow.ask()
			synctest.Wait()
			if got := log.String(); strings.Count(got, "slow request") != 1 || !strings.Contains(got, " took="+slow.by.String()+" ") || !strings.Contains(got, "stages."+slow.stage+"="+slow.by.String()+" ") {
				t.Errorf("%s: logged %s, want %v at %s", what, got, slow.by, slow.stage)
			}
		}
		log.reset()
		time.AfterFunc(2*time.Second-1, r.dev.Hang(0, r.o.size))
		get("there")
		if got := log.String(); got != "" {
			t.Errorf("of a request that was not slow: %s", got)
		}
	}, gated, log.take)
}
