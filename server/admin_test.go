// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"io"
	"net/http"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"

	"github.com/rawblockd/rawblockd/api"
)

// The server listens before there is a store, and says so.
func TestNotReady(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.notReady = true })
	c, admin := r.unix(), r.admin()
	r.srv.SetProgress(7, 10)
	for _, path := range []string{"/v1/kv/default", "/v1/kv/default/k", "/v1/leases", "/v1/leases/x", "/v1/slabs"} {
		a := do(t, c, "GET", path, nil)
		a.want(t, 503, "not_ready", "")
		if a.header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", path)
		}
	}
	do(t, c, "PUT", "/v1/kv/default/k", strings.NewReader("x")).want(t, 503, "not_ready", "")
	post(t, c, "/v1/batch/lookup", `{"namespace":"default","keys":["a"]}`, nil).want(t, 503, "not_ready", "")
	storeFrames(t, c, "namespace=default", frames("a", []byte("x"))).want(t, 503, "not_ready", "")
	do(t, admin, "GET", "/healthz", nil).ok(t)
	var info api.Info
	must(t, json.Unmarshal(do(t, c, "GET", "/v1/info", nil).ok(t).body, &info))
	if info.Alignments.Block != 4096 { // whatever the slabs turn out to be, that does
		t.Errorf("got %+v", info)
	}
	a := do(t, admin, "GET", "/readyz", nil)
	var ready api.Ready
	must(t, json.Unmarshal(a.body, &ready))
	if want := (api.Ready{Phase: "recovering", Done: 7, Total: 10}); a.code != http.StatusServiceUnavailable || ready != want {
		t.Errorf("readyz: got %d %+v, want %+v", a.code, ready, want)
	}
	var status api.StatusReport
	must(t, json.Unmarshal(do(t, admin, "GET", "/v1/status", nil).ok(t).body, &status))
	if status.Ready || status.Instance != testInstance {
		t.Errorf("status: got %+v", status)
	}
	r.srv.SetStore(r.store)
	must(t, json.Unmarshal(do(t, admin, "GET", "/readyz", nil).ok(t).body, &ready))
	if !ready.Ready {
		t.Errorf("readyz: got %+v, want ready", ready)
	}
	mustStore(t, c, 10, "k")
	r.srv.SetStore(nil)
	a = do(t, c, "GET", "/v1/kv/default/k", nil)
	a.want(t, 503, "not_ready", "")
	if got := a.problem().Detail; got != "the daemon is stopping" {
		t.Errorf("got %q", got)
	}
	wantReady(t, admin, api.Ready{Phase: api.PhaseStopping})
}

func wantReady(t *testing.T, c *http.Client, want api.Ready) {
	t.Helper()
	var got api.Ready
	a := do(t, c, "GET", "/readyz", nil)
	must(t, json.Unmarshal(a.body, &got))
	code := http.StatusServiceUnavailable
	if want.Ready {
		code = http.StatusOK
	}
	if got != want || a.code != code || a.header.Get(api.HeaderInstance) != testInstance || a.header.Get("Retry-After") != "1" && !want.Ready {
		t.Errorf("readyz: got %d %+v %v, want %+v", a.code, got, a.header, want)
	}
}

// A daemon whose metadata is out of service says so to whoever watches it, and
// serves what it has.
func TestFailedMetadata(t *testing.T) {
	r := newRig(t)
	c, admin := r.unix(), r.admin()
	mustStore(t, c, 10, "k")
	wantReady(t, admin, api.Ready{Ready: true, Phase: api.PhaseServing})
	r.srv.SetFailed("no space left on device")
	r.srv.SetFailed("and what came of it")
	for range 2 {
		wantReady(t, admin, api.Ready{Phase: api.PhaseMetadataFailed, Reason: "no space left on device"})
	}
	do(t, c, "GET", "/v1/kv/default/k", nil).ok(t)
	if _, bodies := load(t, c, "k"); string(bodies[0]) != string(data("k", 10)) {
		t.Errorf("got %q", bodies[0])
	}
	do(t, admin, "GET", "/healthz", nil).ok(t)
	for range 2 {
		var status api.StatusReport
		must(t, json.Unmarshal(do(t, admin, "GET", "/v1/status", nil).ok(t).body, &status))
		if status.Ready || status.MetaFailed != "no space left on device" {
			t.Errorf("status: got %+v", status)
		}
		r.srv.SetStore(nil)
		wantReady(t, admin, api.Ready{Phase: api.PhaseStopping, Reason: "no space left on device"})
	}
}

func TestAdmin(t *testing.T) {
	r := newRig(t)
	c, admin := r.unix(), r.admin()
	mustStore(t, c, 300_000, "a", "b")
	post(t, c, "/v1/batch/pin", `{"namespace":"default","keys":["a"],"ttl_ms":60000}`, nil).ok(t)
	for _, client := range []*http.Client{admin, c} {
		var status api.StatusReport
		must(t, json.Unmarshal(do(t, client, "GET", "/v1/status", nil).ok(t).body, &status))
		if status.Entries != 2 || status.Leases != 1 || status.Pins != 1 || status.PinnedBytes != 2*256<<10 || status.MetaFailed != "" {
			t.Errorf("got %+v", status)
		}
		var slabs api.SlabsResponse
		must(t, json.Unmarshal(do(t, client, "GET", "/v1/slabs", nil).ok(t).body, &slabs))
		if len(slabs.Slabs) != 1 {
			t.Fatalf("got %+v", slabs)
		}
		s := slabs.Slabs[0]
		n := s.Slots
		if s.Name != "fast0" || s.Health != "online" || s.Durability != "sync" || n.Used != 4 || n.Total != n.Free+n.Used || s.Engine.Name != "pread" || s.Engine.WrittenBytes == 0 {
			t.Errorf("got %+v, engine %+v", s, s.Engine)
		}
	}
	do(t, c, "GET", "/v1/kv/default/none", nil).want(t, 404, "missing", "")
	do(t, c, "GET", "/v1/kv/default/none/", nil).want(t, 400, "unclean_path", "path")
	do(t, c, "GET", "/nothing", nil).want(t, 404, "not_found", "path")
	metrics := string(do(t, admin, "GET", "/metrics", nil).ok(t).body)
	for _, want := range []string{
		`rawblockd_request_duration_seconds_count{code="404",method="GET",route="/v1/kv/{namespace}/{key}"} 1`,
		`rawblockd_request_duration_seconds_count{code="400",method="GET",route="refused"} 1`,
		`rawblockd_request_duration_seconds_count{code="404",method="GET",route="unknown"} 1`,
		`rawblockd_request_duration_seconds_count{code="200",method="POST",route="/v1/batch/store"} 1`,
		`rawblockd_batch_keys_sum{op="store"} 2`, `rawblockd_batch_keys_sum{op="pin"} 1`,
		`rawblockd_request_body_bytes_total{direction="in"} 600`,
		"rawblockd_requests_in_flight 1", "rawblockd_lock_hold_seconds_count",
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
	for _, path := range []string{"/debug/pprof", "/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/goroutine?debug=1", "/debug/pprof/cmdline"} {
		do(t, admin, "GET", path, nil).ok(t)
	}
	do(t, admin, "GET", "/debug/pprof/nope", nil).want(t, 404, "not_found", "path")
	do(t, admin, "GET", "/debug/pprof/heap?seconds=0", nil).want(t, 400, "invalid_field", "query")
	do(t, admin, "GET", "/v1/kv/default/a", nil).want(t, 404, "not_found", "path") // no data on the admin listener
	var info api.Info
	must(t, json.Unmarshal(do(t, c, "GET", "/v1/info", nil).ok(t).body, &info))
	if want := (api.Alignments{Block: 512, Piece: 1 << 20}); info.Alignments != want {
		t.Errorf("alignments: got %+v, want %+v", info.Alignments, want)
	}
	if !slices.IsSorted(info.Features) || !slices.Contains(info.Features, "compact_lookup") {
		t.Errorf("features: got %v", info.Features)
	}
	if info.API != "v1" || info.Instance != testInstance || info.LargestPayload != 8<<20 || info.Limits.BatchKeys != 100 || len(info.Namespaces) != 2 {
		t.Errorf("got %+v", info)
	}
}

func TestLeases(t *testing.T) {
	r := newRig(t)
	c := r.unix()
	mustStore(t, c, 10, "a", "b")
	var pinned api.PinResponse
	post(t, c, "/v1/batch/pin", `{"namespace":"default","keys":["a","none","b"],"owner":"o"}`, &pinned)
	if pinned.Lease == nil || pinned.Lease.Entries != 2 || pinned.Lease.TTLMS != 30_000 {
		t.Fatalf("got %+v", pinned.Lease)
	}
	for query, want := range map[string]int{"": 1, "?namespace=default": 1, "?namespace=other": 0} {
		var all api.LeasesResponse
		must(t, json.Unmarshal(do(t, c, "GET", "/v1/leases"+query, nil).ok(t).body, &all))
		if len(all.Leases) != want || all.Leases == nil {
			t.Errorf("%q: got %+v, want %d", query, all, want)
		}
	}
	post(t, c, "/v1/batch/pin", `{"namespace":"default","keys":["none"]}`, &pinned)
	if strings.Contains(string(post(t, c, "/v1/batch/pin", `{"namespace":"default","keys":["none"]}`, nil).body), "lease") {
		t.Error("a lease on nothing")
	}
}

// A profile over a span of time does not hold up a stop, which would wait for it as
// for any request.
func TestStopEndsProfiles(t *testing.T) {
	r := newRig(t)
	admin := r.admin()
	ended := make(chan answer)
	go func() { ended <- do(t, admin, "GET", "/debug/pprof/heap?seconds=3600", nil) }()
	for r.openStreams() == 0 { // the end of the test bounds it
		do(t, admin, "GET", "/healthz", nil).ok(t)
	}
	r.srv.SetStore(nil)
	(<-ended).want(t, 503, "not_ready", "")
	do(t, admin, "GET", "/debug/pprof/heap?seconds=3600", nil).want(t, 503, "not_ready", "")
	do(t, admin, "GET", "/debug/pprof/goroutine?debug=1", nil).ok(t)
}

func TestOneProfileAtATime(t *testing.T) {
	r := newRig(t)
	admin := r.admin()
	must(t, pprof.StartCPUProfile(io.Discard))
	defer pprof.StopCPUProfile()
	a := do(t, admin, "GET", "/debug/pprof/profile?seconds=1", nil)
	a.want(t, 503, "busy", "")
	if a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}
