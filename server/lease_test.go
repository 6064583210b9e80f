// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rawblockd/rawblockd/api"
)

func pinned(t *testing.T, c *http.Client, ms string, keys ...string) api.Lease {
	t.Helper()
	var res api.PinResponse
	post(t, c, "/v1/batch/pin", `{"namespace":"default","keys":`+quoted(keys)+`,"ttl_ms":`+ms+`,"owner":"o"}`, &res)
	if res.Lease == nil {
		t.Fatalf("got %+v", res)
	}
	return *res.Lease
}

func TestRenewLease(t *testing.T) {
	paced(t, time.Hour, func(_ *rig, dial func() net.Conn) {
		c := dialing(t, dial)
		mustStore(t, c, 100, "a")
		l := pinned(t, c, "10000", "a")
		time.Sleep(9 * time.Second)
		for query, want := range map[string]int64{"": 10_000, "?ttl_ms=0": 10_000, "?ttl_ms=20000": 20_000, "?ttl_ms=3600000": 600_000} {
			// A renewed lease keeps its time: each begins with the one asked for first.
			do(t, c, "POST", "/v1/leases/"+l.ID+"/renew?ttl_ms=10000", nil).ok(t)
			var got api.Lease
			must(t, json.Unmarshal(do(t, c, "POST", "/v1/leases/"+l.ID+"/renew"+query, http.NoBody).ok(t).body, &got))
			if got.ID != l.ID || got.TTLMS != want || got.Owner != "o" || got.Entries != 1 || time.Until(got.ExpiresAt) != time.Duration(want)*time.Millisecond {
				t.Errorf("%q: got %+v", query, got)
			}
		}
		do(t, c, "POST", "/v1/leases/"+l.ID+"/renew?ttl_ms=2000", nil).ok(t)
		time.Sleep(2 * time.Second)
		do(t, c, "POST", "/v1/leases/"+l.ID+"/renew", nil).want(t, 404, "unknown_lease", "lease")
		do(t, c, "GET", "/v1/leases/"+l.ID, nil).want(t, 404, "unknown_lease", "lease")
		do(t, c, "DELETE", "/v1/kv/default/a", nil).ok(t)
	})
}

func TestRenewLeaseRefusals(t *testing.T) {
	r := newRig(t)
	c := r.unix()
	mustStore(t, c, 100, "a")
	path := "/v1/leases/" + pinned(t, c, "60000", "a").ID + "/renew"
	for query, field := range map[string]string{"?ttl_ms=-1": "ttl_ms", "?ttl_ms=1s": "ttl_ms", "?ttl_ms=%ff": "ttl_ms", "?deadline_ms=0": "deadline_ms"} {
		do(t, c, "POST", path+query, nil).want(t, 400, "invalid_field", field)
	}
	do(t, c, "POST", path+"?ttl=1", nil).want(t, 400, "unknown_field", "ttl")
	do(t, c, "POST", path, strings.NewReader("ttl_ms=1"), "Content-Type", "application/x-www-form-urlencoded").want(t, 415, "unsupported_media_type", "Content-Type")
	do(t, c, "POST", path, strings.NewReader(`{"ttl_ms":1}`), "Content-Type", api.MediaJSON).want(t, 413, "body_too_large", "")
	do(t, c, "POST", path, oneByOne{strings.NewReader(`{}`)}, "Content-Type", api.MediaJSON).want(t, 413, "body_too_large", "")
	do(t, c, "POST", path, oneByOne{strings.NewReader("")}).ok(t) // chunked, and nothing in it
	do(t, c, "GET", path, nil).want(t, 405, "method_not_allowed", "")
	do(t, c, "POST", "/v1/leases/%ff/renew", nil).want(t, 404, "unknown_lease", "lease")
}

// oneByOne hides how long a body is.
type oneByOne struct{ r *strings.Reader }

func (o oneByOne) Read(p []byte) (int, error) { return o.r.Read(p[:min(len(p), 1)]) }

// A release is answered 200 whatever the id: its callers try again until it is.
func TestReleaseLease(t *testing.T) {
	r := newRig(t)
	c := r.unix()
	mustStore(t, c, 100, "a", "b", "c")
	l := pinned(t, c, "60000", "a", "b", "c")
	post(t, c, "/v1/batch/remove", `{"namespace":"default","keys":["c"],"force":true}`, nil).ok(t)
	for path, want := range map[string]string{
		"/v1/leases/x/release?x=1": `{"released":0,"stale":0}`,
		"/v1/leases/%ff/release":   `{"released":0,"stale":0}`,
	} {
		if got := strings.TrimSpace(string(do(t, c, "POST", path, strings.NewReader("x"), "Content-Type", "text/html").ok(t).body)); got != want {
			t.Errorf("%s: got %s", path, got)
		}
	}
	for _, want := range []string{`{"released":2,"stale":1}`, `{"released":0,"stale":0}`, `{"released":0,"stale":0}`} {
		if got := strings.TrimSpace(string(do(t, c, "POST", "/v1/leases/"+l.ID+"/release", nil).ok(t).body)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if n := r.store.Status().Pins; n != 0 {
		t.Errorf("%d pins left", n)
	}
	r.srv.SetStore(nil)
	do(t, c, "POST", "/v1/leases/"+l.ID+"/release", nil).ok(t)
	do(t, c, "POST", "/v1/leases/"+l.ID+"/renew", nil).want(t, 503, "not_ready", "")
}

// The lease protocol where there is no segment: 504 at once for a miss, and a
// hit says what is not there to stage it in.
func TestStageWithoutSegment(t *testing.T) {
	log := &logLines{}
	r := newRig(t, log.take)
	c := r.unix()
	mustStore(t, c, 100, "a", "leases", "clear")
	for _, key := range []string{"a", "leases", "clear"} {
		do(t, c, "POST", "/v1/kv/default/"+key+"/leases?timeout_ms=1000&ttl_s=30.0", nil).want(t, 503, "no_segment", "namespace")
	}
	for query, field := range map[string]string{
		"timeout_ms=-1": "timeout_ms", "timeout_ms=1.5": "timeout_ms", "ttl_s=-1": "ttl_s", "ttl_s=NaN": "ttl_s", "ttl_s=Inf": "ttl_s", "ttl_s=x": "ttl_s", "ttl_s=1e99": "ttl_s",
	} {
		do(t, c, "POST", "/v1/kv/default/a/leases?"+query, nil).want(t, 400, "invalid_field", field)
	}
	do(t, c, "POST", "/v1/kv/default/a/leases?ttl_ms=1", nil).want(t, 400, "unknown_field", "ttl_ms")
	do(t, c, "POST", "/v1/kv/default/%ff/leases", nil).want(t, 400, "invalid_key", "")
	do(t, c, "POST", "/v1/kv/nowhere/a/leases", nil).want(t, 404, "unknown_namespace", "namespace")
	do(t, c, "POST", "/v1/kv/default/a/leases", strings.NewReader("x"), "Content-Type", "text/html").want(t, 415, "unsupported_media_type", "Content-Type")
	for method, want := range map[string]int{"GET": 405, "PUT": 405, "DELETE": 405} {
		if a := do(t, c, method, "/v1/kv/default/a/leases", strings.NewReader("x")); a.code != want || a.header.Get("Allow") != "POST" {
			t.Errorf("%s: got %d, Allow %s", method, a.code, a.header.Get("Allow"))
		}
	}
	if n := r.store.Status().Leases; n != 0 {
		t.Errorf("%d leases left", n)
	}
	if got := log.String(); strings.Contains(got, "request failed") {
		t.Errorf("what is no fault was logged: %s", got)
	}
}

// A miss is answered at once, however long the caller would wait.
func TestStageMiss(t *testing.T) {
	paced(t, time.Hour, func(_ *rig, dial func() net.Conn) {
		c := dialing(t, dial)
		do(t, c, "PUT", "/v1/kv/default/gone?ttl_ms=1000", strings.NewReader("x")).ok(t)
		time.Sleep(time.Second) // it has expired and is swept
		began := time.Now()
		for _, key := range []string{"none", "gone"} {
			a := do(t, c, "POST", "/v1/kv/default/"+key+"/leases?timeout_ms=5000&ttl_s=30.0", nil)
			if p := a.problem(); a.code != 504 || p.Code != "missing" && p.Code != "expired" {
				t.Errorf("%s: got %d %s", key, a.code, a.body)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("took %v, want no time", took)
		}
	})
}
