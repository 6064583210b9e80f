// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/go-cmp/cmp"

	"github.com/rawblockd/rawblockd/api"
)

func TestTouch(t *testing.T) {
	paced(t, time.Hour, func(_ *rig, dial func() net.Conn) {
		c := dialing(t, dial)
		for _, k := range []string{"a", "b", "gone"} {
			do(t, c, "PUT", "/v1/kv/default/"+k+"?ttl_ms=10000", strings.NewReader(k)).ok(t)
		}
		post(t, c, "/v1/batch/touch", `{"namespace":"default","keys":["gone"],"ttl_ms":1000}`, nil).ok(t)
		time.Sleep(9 * time.Second)
		got := decode[api.TouchResponse](t, post(t, c, "/v1/batch/touch", `{"namespace":"default","keys":["a","none","a","","gone"],"ttl_ms":60000}`, nil))
		words := words(got.Results, func(k api.StatusResult) api.Status { return k.Status })
		if words != "ok missing duplicate invalid_key missing" && words != "ok missing duplicate invalid_key expired" || got.Touched != 1 {
			t.Errorf("got %s, %d touched", words, got.Touched)
		}
		for i, k := range got.Results {
			if (k.Error != "") != (k.Status == api.StatusInvalidKey) {
				t.Errorf("key %d: got %+v", i, k)
			}
		}
		time.Sleep(59 * time.Second)
		do(t, c, "GET", "/v1/kv/default/a", nil).ok(t)
		if a := do(t, c, "GET", "/v1/kv/default/b", nil); a.code != 404 {
			t.Errorf("b: got %d, want it expired", a.code)
		}
		time.Sleep(time.Second)
		if a := do(t, c, "GET", "/v1/kv/default/a", nil); a.code != 404 {
			t.Errorf("a: got %d, want it expired", a.code)
		}
		// 0 is the namespace's.
		putNS(t, c, "ns", `{"ttl_ms":5000}`).ok(t)
		do(t, c, "PUT", "/v1/kv/ns/k?ttl_ms=3600000", strings.NewReader("x")).ok(t)
		for _, more := range []string{"", `,"ttl_ms":0`, `,"ttl_ms":null`} {
			post(t, c, "/v1/batch/touch", `{"namespace":"ns","keys":["k"]`+more+`}`, nil).ok(t)
			time.Sleep(4 * time.Second)
		}
		time.Sleep(time.Second)
		if a := do(t, c, "GET", "/v1/kv/ns/k", nil); a.code != 404 {
			t.Errorf("ns/k: got %d, want it expired", a.code)
		}
	})
}

func TestTouchRefusals(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.batchKeys = 2 })
	c := r.unix()
	const path = "/v1/batch/touch"
	post(t, c, path, `{"namespace":"default","keys":["a","b","c"]}`, nil).want(t, 413, "too_many_keys", "keys")
	post(t, c, path, `{"namespace":"default","keys":["a"],"ttl_ms":-1}`, nil).want(t, 400, "invalid_field", "ttl_ms")
	post(t, c, path, `{"namespace":"default","keys":["a"],"ttl":1}`, nil).want(t, 400, "unknown_field", "ttl")
	post(t, c, path, `{"namespace":"nowhere","keys":["a"]}`, nil).want(t, 404, "unknown_namespace", "namespace")
	post(t, c, path, `{"keys":["a"]}`, nil).want(t, 400, "missing_field", "namespace")
	post(t, c, path, `{"namespace":"default"}`, nil).want(t, 400, "missing_field", "keys")
	post(t, c, path, `{`, nil).want(t, 400, "malformed_json", "")
	do(t, c, "POST", path, strings.NewReader("a\n"), "Content-Type", api.MediaText).want(t, 415, "unsupported_media_type", "Content-Type")
	do(t, c, "GET", path, nil).want(t, 405, "method_not_allowed", "")
	got := decode[api.TouchResponse](t, post(t, c, path, "{\"namespace\":\"default\",\"keys\":[\"\xff\",\"\\ud800\"]}", nil))
	if d := cmp.Diff("invalid_key invalid_key", words(got.Results, func(k api.StatusResult) api.Status { return k.Status })); d != "" {
		t.Error(d)
	}
	if got := strings.TrimSpace(string(post(t, c, path, `{"namespace":"default","keys":[]}`, nil).ok(t).body)); got != `{"results":[],"touched":0}` {
		t.Errorf("got %s", got)
	}
}

// A touch that is not durable in time is answered so, key by key.
func TestTouchDeadline(t *testing.T) {
	g := &gate{}
	gated := func(o *rigOptions) { o.metaFS = errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(g.pass)) }
	paced(t, time.Minute, func(_ *rig, dial func() net.Conn) {
		c := dialing(t, dial)
		mustStore(t, c, 100, "k")
		open := g.close()
		defer open()
		got := decode[api.TouchResponse](t, post(t, c, "/v1/batch/touch", `{"namespace":"default","keys":["k"],"ttl_ms":1000000,"deadline_ms":20}`, nil))
		const want = "not finished within 20 ms; the outcome is unknown: look the key up"
		if k := got.Results[0]; k.Status != api.StatusDeadline || k.Error != want || got.Touched != 0 {
			t.Errorf("got %+v", got)
		}
	}, gated)
}
