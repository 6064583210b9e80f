// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/rawblockd/rawblockd/api"
)

func TestExplain(t *testing.T) {
	paced(t, time.Hour, func(r *rig, dial func() net.Conn) {
		c := dialing(t, dial)
		const odd = "a/b ?%é"
		do(t, c, "PUT", api.ObjectPath("default", odd)+"?ttl_ms=5000", strings.NewReader(strings.Repeat("x", 300_000))).ok(t)
		stored := time.Now()
		explain := func(key string) api.Explanation {
			t.Helper()
			return decode[api.Explanation](t, do(t, c, "GET", api.ExplainPath("default", key), nil))
		}
		got := explain(odd)
		if got.Key != odd || got.Status != api.StatusOK || got.Reason != "stored" || got.Detail == "" || got.Slab != "fast0" || got.Slot == nil ||
			got.Bytes != 300_000 || got.SlotBytes != 2*256<<10 || got.Generation == 0 || got.Pinned ||
			!got.StoredAt.Equal(stored) || !got.ExpiresAt.Equal(stored.Add(5*time.Second)) {
			t.Errorf("stored: got %+v", got)
		}
		// The ETag of a GET names the entry.
		if tag := do(t, c, "HEAD", api.ObjectPath("default", odd), nil).ok(t).header.Get("ETag"); tag != `"`+r.store.Tag(got.Generation)+`"` {
			t.Errorf("ETag %s of generation %d", tag, got.Generation)
		}
		pinned(t, c, "1000", odd)
		if got := explain(odd); !got.Pinned {
			t.Errorf("pinned: got %+v", got)
		}
		if got := explain("none"); got.Status != api.StatusMissing || got.Reason != "never_stored" || got.Detail == "" || got.Slot != nil || got.Bytes != 0 || !got.At.IsZero() {
			t.Errorf("none: got %+v", got)
		}
		time.Sleep(5 * time.Second)
		if got := explain(odd); got.Reason != "expired" || got.At.IsZero() {
			t.Errorf("expired: got %+v", got)
		}
		mustStore(t, c, 10, "gone", "cleared")
		removed := time.Now()
		do(t, c, "DELETE", "/v1/kv/default/gone", nil).ok(t)
		time.Sleep(time.Second)
		if got := explain("gone"); got.Status != api.StatusMissing || got.Reason != "removed" || !got.At.Equal(removed) {
			t.Errorf("removed: got %+v, want it at %v", got, removed)
		}
		post(t, c, "/v1/kv/default/clear", `{"confirm":"default"}`, nil).ok(t)
		if got := explain("cleared"); got.Reason != "removed" || !strings.Contains(got.Detail, "cleared") {
			t.Errorf("cleared: got %+v", got)
		}
	})
}

func TestExplainRefusals(t *testing.T) {
	r := newRig(t)
	c := r.unix()
	do(t, c, "GET", "/v1/explain/nowhere/k", nil).want(t, 404, "unknown_namespace", "namespace")
	do(t, c, "GET", "/v1/explain/default/%ff", nil).want(t, 400, "invalid_key", "")
	do(t, c, "GET", "/v1/explain/default/"+strings.Repeat("k", 1025), nil).want(t, 400, "invalid_key", "")
	do(t, c, "GET", "/v1/explain/default/", nil).want(t, 400, "unclean_path", "path")
	do(t, c, "GET", "/v1/explain/default/%2e%2e", nil).want(t, 400, "unclean_path", "path")
	do(t, c, "GET", "/v1/explain/default/k?x=1", nil).want(t, 400, "unknown_field", "x")
	do(t, c, "POST", "/v1/explain/default/k", nil).want(t, 405, "method_not_allowed", "")
	a := do(t, c, "GET", "/v1/explain/default/a/b", nil)
	a.want(t, 404, "not_found", "path")
	if got := a.problem().Detail; !strings.Contains(got, "/v1/explain/default/a%2Fb") {
		t.Errorf("got %q, want the path of that key", got)
	}
	var raw map[string]any
	must(t, json.Unmarshal(do(t, c, "GET", "/v1/explain/default/none", nil).ok(t).body, &raw))
	for _, absent := range []string{"at", "slab", "slot", "generation", "stored_at", "expires_at"} {
		if v, there := raw[absent]; there {
			t.Errorf("a miss has %s: %v", absent, v)
		}
	}
}
