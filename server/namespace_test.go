// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/go-cmp/cmp"

	"github.com/rawblockd/rawblockd/api"
)

// putNS sends settings.
func putNS(t *testing.T, c *http.Client, name, body string) answer {
	t.Helper()
	return do(t, c, "PUT", "/v1/namespaces/"+name, strings.NewReader(body), "Content-Type", api.MediaJSON)
}

func decode[V any](t *testing.T, a answer) V {
	t.Helper()
	var v V
	must(t, json.Unmarshal(a.ok(t).body, &v))
	return v
}

func TestNamespaces(t *testing.T) {
	log := &auditLog{}
	r := newRig(t, log.take)
	c := r.unix()
	const slot = 256 << 10
	made := decode[api.PutNamespaceResponse](t, putNS(t, c, "new", `{"slabs":["fast0"],"quota":1048576,"ttl_ms":60000,"fingerprint":"m1"}`))
	want := api.Namespace{Name: "new", Slabs: []string{"fast0"}, Quota: 1 << 20, TTLMS: 60_000, Fingerprint: "m1", Served: true}
	if d := cmp.Diff(api.PutNamespaceResponse{Namespace: want, Created: true}, made); d != "" {
		t.Error(d)
	}
	do(t, c, "PUT", "/v1/kv/new/k", strings.NewReader("x")).ok(t)
	var lease api.PinResponse
	post(t, c, "/v1/batch/pin", `{"namespace":"new","keys":["k"]}`, &lease)
	want.Entries, want.SlotBytes, want.PinnedBytes = 1, slot, slot
	if d := cmp.Diff(want, decode[api.Namespace](t, do(t, c, "GET", "/v1/namespaces/new", nil))); d != "" {
		t.Error(d)
	}
	// What is absent keeps its value, null too; what is there is taken, though empty.
	want.Slabs = []string{}
	for _, change := range []string{`{"slabs":[],"ttl_ms":null}`, `{}`, `{"quota":0}`} {
		if strings.Contains(change, "quota") {
			want.Quota = 0
		}
		changed := decode[api.PutNamespaceResponse](t, putNS(t, c, "new", change))
		if d := cmp.Diff(api.PutNamespaceResponse{Namespace: want}, changed); d != "" {
			t.Errorf("%s: %s", change, d)
		}
	}
	all := decode[api.NamespacesResponse](t, do(t, c, "GET", "/v1/namespaces", nil)).Namespaces
	if len(all) != 3 || all[0].Name != "default" || !all[0].FromConfig || all[0].Slabs == nil || all[1].Name != "new" || all[1].FromConfig || !all[2].FromConfig {
		t.Errorf("got %+v", all)
	}
	do(t, c, "DELETE", "/v1/namespaces/new", nil).want(t, 409, "not_empty", "namespace")
	post(t, c, "/v1/batch/remove", `{"namespace":"new","keys":["k"],"force":true}`, nil).ok(t)
	if got := strings.TrimSpace(string(do(t, c, "DELETE", "/v1/namespaces/new", nil).ok(t).body)); got != `{"name":"new"}` {
		t.Errorf("got %s", got)
	}
	do(t, c, "GET", "/v1/namespaces/new", nil).want(t, 404, "unknown_namespace", "namespace")
	do(t, c, "GET", "/v1/kv/new/k", nil).want(t, 404, "unknown_namespace", "namespace")
	log.want(t,
		`what="namespace created" namespace=new slabs=[fast0] quota=1048576 ttl=1m0s fingerprint=m1`,
		`what="namespace changed" namespace=new slabs=[] quota=1048576 ttl=1m0s fingerprint=m1`,
		`what="namespace changed" namespace=new slabs=[] quota=0 ttl=1m0s fingerprint=m1`,
		`what="forced remove" namespace=new keys=1 removed=1`,
		`what="namespace deleted" namespace=new`,
	)
}

func TestNamespaceRefusals(t *testing.T) {
	log := &auditLog{}
	r := newRig(t, log.take)
	c := r.unix()
	mustStore(t, c, 10, "k")
	putNS(t, c, "default", `{"fingerprint":"m1"}`).ok(t)
	before := decode[api.NamespacesResponse](t, do(t, c, "GET", "/v1/namespaces", nil))
	log.reset()
	for name, want := range map[string]struct {
		body        string
		code        int
		word, field string
	}{
		"none":          {`{"slabs":["fast9"]}`, 400, "invalid_field", "slabs"},
		"n1":            {`{"quota":1}`, 400, "invalid_field", "quota"},
		"n2":            {`{"quota":-1}`, 400, "invalid_field", "quota"},
		"n3":            {`{"ttl_ms":1.5}`, 400, "invalid_field", "ttl_ms"},
		"n4":            {`{"fingerprint":"\u0001"}`, 400, "invalid_field", "fingerprint"},
		"n5":            {`{"name":"n5"}`, 400, "unknown_field", "name"},
		"n6":            {`{`, 400, "malformed_json", ""},
		"n7":            {``, 400, "malformed_json", ""},
		"n8":            {"{\"fingerprint\":\"\xff\"}", 400, "invalid_field", "fingerprint"},
		"a%20b":         {`{}`, 400, "invalid_field", "namespace"},
		"a%2Fb":         {`{}`, 400, "invalid_field", "namespace"},
		"%ff":           {`{}`, 400, "invalid_field", "namespace"},
		".hidden":       {`{}`, 400, "invalid_field", "namespace"},
		"default":       {`{"fingerprint":"m2"}`, 409, "fingerprint_mismatch", "fingerprint"},
		"n9?quota=1":    {`{}`, 400, "unknown_field", "quota"},
		"n10?created=1": {`{}`, 400, "unknown_field", "created"},
	} {
		putNS(t, c, name, want.body).want(t, want.code, want.word, want.field)
	}
	do(t, c, "PUT", "/v1/namespaces/new", strings.NewReader(`{}`)).want(t, 415, "unsupported_media_type", "Content-Type")
	do(t, c, "PUT", "/v1/namespaces/new", strings.NewReader(`{}`), "Content-Type", api.MediaText).want(t, 415, "unsupported_media_type", "Content-Type")
	do(t, c, "DELETE", "/v1/namespaces/default", nil).want(t, 409, "from_config", "namespace")
	do(t, c, "DELETE", "/v1/namespaces/nowhere", nil).want(t, 404, "unknown_namespace", "namespace")
	do(t, c, "DELETE", "/v1/namespaces/default?force=1", nil).want(t, 400, "unknown_field", "force")
	do(t, c, "GET", "/v1/namespaces/nowhere", nil).want(t, 404, "unknown_namespace", "namespace")
	do(t, c, "GET", "/v1/namespaces?limit=1", nil).want(t, 400, "unknown_field", "limit")
	do(t, c, "POST", "/v1/namespaces/default", nil).want(t, 405, "method_not_allowed", "")
	after := decode[api.NamespacesResponse](t, do(t, c, "GET", "/v1/namespaces", nil))
	if d := cmp.Diff(before, after); d != "" {
		t.Errorf("what was refused changed something: %s", d)
	}
	log.want(t)
}

// Only an administrator changes namespaces; a tenant may still look at its own.
func TestNamespaceRights(t *testing.T) {
	r := newAuthRig(t)
	tcp, _ := r.tcp()
	a, adm := as(tcp, tokenA), as(tcp, tokenAdm)
	for _, name := range []string{"default", "other", "nowhere"} {
		putNS(t, a, name, `{"quota":0}`).want(t, 403, "forbidden", "Authorization")
		do(t, a, "DELETE", "/v1/namespaces/"+name, nil).want(t, 403, "forbidden", "Authorization")
	}
	do(t, a, "GET", "/v1/namespaces/default", nil).ok(t)
	do(t, a, "GET", "/v1/namespaces/other", nil).want(t, 404, "unknown_namespace", "namespace")
	do(t, tcp, "GET", "/v1/namespaces", nil).want(t, 401, "unauthorized", "Authorization")
	putNS(t, adm, "new", `{}`).ok(t)
	do(t, adm, "DELETE", "/v1/namespaces/new", nil).ok(t)
}

// A change whose commit hangs is answered at the deadline: the outcome is
// unknown, and whoever waits behind it has changed nothing.
func TestNamespaceDeadline(t *testing.T) {
	g := &gate{}
	gated := func(o *rigOptions) { o.metaFS = errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(g.pass)) }
	paced(t, time.Second, func(_ *rig, dial func() net.Conn) {
		c := dialing(t, dial)
		open := g.close()
		defer open()
		for i, want := range []string{
			"not finished within 1000 ms; the outcome is unknown: ask for the namespace",
			"not finished within 1000 ms; nothing was changed",
		} {
			a := putNS(t, c, []string{"a", "b"}[i], `{}`)
			a.want(t, 504, "deadline", "")
			if got := a.problem().Detail; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		open()
		putNS(t, c, "c", `{}`).ok(t)
		do(t, c, "GET", "/v1/namespaces/a", nil).ok(t)
		do(t, c, "GET", "/v1/namespaces/b", nil).want(t, 404, "unknown_namespace", "namespace")
	}, gated)
}

func TestClear(t *testing.T) {
	log := &auditLog{}
	r := newRig(t, log.take)
	c := r.unix()
	mustStore(t, c, 100, "a", "b", "c")
	do(t, c, "PUT", "/v1/kv/other/x", strings.NewReader("x")).ok(t)
	pinned(t, c, "60000", "b")
	got := decode[api.ClearResponse](t, post(t, c, "/v1/kv/default/clear", `{"confirm":"default"}`, nil))
	if got != (api.ClearResponse{Removed: 2, Pinned: 1}) {
		t.Errorf("got %+v", got)
	}
	for path, code := range map[string]int{"default/a": 404, "default/b": 200, "default/c": 404, "other/x": 200} { // C22
		if a := do(t, c, "GET", "/v1/kv/"+path, nil); a.code != code {
			t.Errorf("%s: got %d, want %d", path, a.code, code)
		}
	}
	log.want(t, `what=clear namespace=default removed=2 pinned=1`)
}

// C36: nothing but a POST that names the namespace twice clears it, and every
// key stays a key.
func TestKeysAreNoClear(t *testing.T) {
	log := &auditLog{}
	r := newRig(t, log.take)
	c := r.unix()
	keys := []string{"clear", "leases", "/", "//", "/clear", "clear/", "CLEAR", ".", "..", "a/leases", "keep"}
	var items []any
	for _, k := range keys {
		items = append(items, k, []byte(k))
	}
	if got := decode[api.StoreResponse](t, storeFrames(t, c, "namespace=default", frames(items...))); got.OK != len(keys) {
		t.Fatalf("stored %+v", got)
	}
	for _, k := range keys {
		path := api.ObjectPath("default", k)
		if k == "." || k == ".." {
			for _, method := range []string{"GET", "PUT", "DELETE", "POST"} {
				do(t, c, method, "/v1/kv/default/"+k, strings.NewReader("x"), "Content-Type", api.MediaJSON)
				do(t, c, method, "/v1/kv/default/"+strings.ReplaceAll(k, ".", "%2e"), strings.NewReader("x")).want(t, 400, "unclean_path", "path")
			}
			continue
		}
		if a := do(t, c, "GET", path, nil).ok(t); string(a.body) != k {
			t.Errorf("%s: got %q", path, a.body)
		}
		do(t, c, "HEAD", path, nil).ok(t)
		do(t, c, "PUT", path, strings.NewReader("new")).want(t, 409, "exists", "")
		a := do(t, c, "POST", path, strings.NewReader(`{}`), "Content-Type", api.MediaJSON)
		if k == "clear" {
			a.want(t, 400, "missing_field", "confirm")
		} else if a.want(t, 405, "method_not_allowed", ""); a.header.Get("Allow") != "DELETE, GET, HEAD, PUT" {
			t.Errorf("%s: Allow %s", path, a.header.Get("Allow"))
		}
	}
	for body, want := range map[string][2]string{
		``:                                       {"malformed_json", ""},
		`{"confirm":"other"}`:                    {"invalid_field", "confirm"},
		`{"confirm":"Default"}`:                  {"invalid_field", "confirm"},
		`{"confirm":""}`:                         {"missing_field", "confirm"},
		"{\"confirm\":\"\xff\"}":                 {"invalid_field", "confirm"},
		`{"confirm":"default","force":true}`:     {"unknown_field", "force"},
		`{"confirm":"default","deadline_ms":-1}`: {"invalid_field", "deadline_ms"},
	} {
		post(t, c, "/v1/kv/default/clear", body, nil).want(t, 400, want[0], want[1])
	}
	do(t, c, "POST", "/v1/kv/default/clear?confirm=default", strings.NewReader(`{"confirm":"default"}`), "Content-Type", api.MediaJSON).want(t, 400, "unknown_field", "confirm")
	do(t, c, "POST", "/v1/kv/default/clear", strings.NewReader(`{"confirm":"default"}`)).want(t, 415, "unsupported_media_type", "Content-Type")
	do(t, c, "POST", "/v1/kv/default/clear", strings.NewReader(`{"confirm":"default"}`), "Content-Type", api.MediaText).want(t, 415, "unsupported_media_type", "Content-Type")
	post(t, c, "/v1/kv/nowhere/clear", `{"confirm":"nowhere"}`, nil).want(t, 404, "unknown_namespace", "namespace")
	do(t, c, "POST", "/v1/kv/default", strings.NewReader(`{"confirm":"default"}`), "Content-Type", api.MediaJSON).want(t, 405, "method_not_allowed", "")
	do(t, c, "DELETE", "/v1/kv/default", nil).want(t, 405, "method_not_allowed", "")
	do(t, c, "DELETE", "/v1/kv/default/", nil).want(t, 400, "unclean_path", "path")
	if a := do(t, c, "PATCH", "/v1/kv/default/clear", nil); a.header.Get("Allow") != "DELETE, GET, HEAD, POST, PUT" {
		t.Errorf("Allow: %s", a.header.Get("Allow"))
	}
	if n := r.store.Status().Entries; n != len(keys) {
		t.Errorf("%d entries, want all %d", n, len(keys))
	}
	log.want(t)
	for i, k := range keys { // each is removed as itself
		if k == "." || k == ".." {
			post(t, c, "/v1/batch/remove", `{"namespace":"default","keys":["`+k+`"]}`, nil).ok(t)
		} else {
			do(t, c, "DELETE", api.ObjectPath("default", k), nil).ok(t)
		}
		if n := r.store.Status().Entries; n != len(keys)-i-1 {
			t.Fatalf("%d entries after key %d", n, i)
		}
	}
}

// The metrics know a clear from a key, and keys by nothing but the route.
func TestClearRouteLabel(t *testing.T) {
	r := newRig(t)
	c, admin := r.unix(), r.admin()
	post(t, c, "/v1/kv/default/clear", `{"confirm":"default"}`, nil).ok(t)
	do(t, c, "GET", "/v1/kv/default/clear", nil).want(t, 404, "missing", "")
	do(t, c, "POST", "/v1/kv/default/k", nil).want(t, 405, "method_not_allowed", "")
	do(t, c, "POST", "/v1/kv/default/k/leases", nil).want(t, 504, "missing", "")
	metrics := string(do(t, admin, "GET", "/metrics", nil).ok(t).body)
	for _, want := range []string{
		`{code="200",method="POST",route="/v1/kv/{namespace}/clear"} 1`,
		`{code="404",method="GET",route="/v1/kv/{namespace}/{key}"} 1`,
		`{code="405",method="POST",route="/v1/kv/{namespace}/{key}"} 1`,
		`{code="504",method="POST",route="/v1/kv/{namespace}/{key}/leases"} 1`,
	} {
		if !strings.Contains(metrics, "rawblockd_request_duration_seconds_count"+want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
}

// A clear that does not end in time says how far it came.
func TestClearDeadline(t *testing.T) {
	g := &gate{}
	gated := func(o *rigOptions) { o.metaFS = errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(g.pass)) }
	paced(t, time.Minute, func(_ *rig, dial func() net.Conn) {
		c := dialing(t, dial)
		mustStore(t, c, 100, "a", "b")
		open := g.close()
		defer open()
		a := post(t, c, "/v1/kv/default/clear", `{"confirm":"default","deadline_ms":2000}`, nil)
		a.want(t, 504, "deadline", "")
		if got, want := a.problem().Detail, "not finished within 2000 ms; the outcome is unknown: clear again"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		open()
		if got := decode[api.ClearResponse](t, post(t, c, "/v1/kv/default/clear", `{"confirm":"default"}`, nil)); got.Removed != 0 {
			t.Errorf("got %+v", got)
		}
	}, gated)
}

// A clear that does not get its turn is written down too: somebody wanted it.
func TestAuditOfAClearWithoutATurn(t *testing.T) {
	g, log := &gate{}, &auditLog{}
	gated := func(o *rigOptions) { o.metaFS = errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(g.pass)) }
	paced(t, time.Minute, func(r *rig, dial func() net.Conn) {
		c := dialing(t, dial)
		mustStore(t, c, 100, "a", "b")
		open := g.close()
		defer open()
		first := make(chan answer, 1)
		go func() { first <- post(t, c, "/v1/kv/default/clear", `{"confirm":"default"}`, nil) }()
		synctest.Wait()
		post(t, c, "/v1/kv/default/clear", `{"confirm":"default","deadline_ms":2000}`, nil).want(t, 504, "deadline", "")
		if got := log.String(); strings.Count(got, "msg=audit") != 1 || !strings.Contains(got, `what=clear`) || !strings.Contains(got, `namespace=default removed=0 pinned=0 err="no turn came in time`) {
			t.Errorf("logged %s", got)
		}
		open()
		if got := decode[api.ClearResponse](t, <-first); got.Removed != 2 {
			t.Errorf("the first one: %+v", got)
		}
	}, gated, log.take)
}
