// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/tokens"
)

// probe makes a request of a route that names namespace ns and lease id, as far
// as the route names any.
type probe func(ns, id string) *http.Request

func get(path string) probe { return bare("GET", path) }

// bare is a request without a body. NS and ID in its path stand for the two.
func bare(method, path string) probe { return body(method, path, "", "") }

func body(method, path, media, text string) probe {
	return func(ns, id string) *http.Request {
		fill := strings.NewReplacer("NS", ns, "ID", id)
		var b io.Reader
		if text != "" {
			b = strings.NewReader(fill.Replace(text))
		}
		r, err := http.NewRequest(method, "http://localhost"+fill.Replace(path), b)
		if err != nil {
			panic(err)
		}
		if media != "" {
			r.Header.Set("Content-Type", media)
		}
		return r
	}
}

// known asks for what the client has already: the answer is no text in which to
// look for names.
func known(path string) probe {
	return func(ns, id string) *http.Request {
		r := get(path)(ns, id)
		r.Header.Set("If-None-Match", "*")
		return r
	}
}

func batch(op, more string) []probe {
	return []probe{body("POST", "/v1/batch/"+op, api.MediaJSON, `{"namespace":"NS"`+more+`}`)}
}

// tenantKey is a key of tenant b.
const tenantKey = "key-of-b"

// probes says how every data route is asked about a namespace. All of them must
// be here: what another tenant has must not show through any.
func probes() map[string][]probe {
	const keys = `,"keys":["` + tenantKey + `"]`
	object := "/v1/kv/NS/" + tenantKey
	return map[string][]probe{
		"GET /v1/kv/{namespace}":               {get("/v1/kv/NS"), get("/v1/kv/NS?limit=1"), get("/v1/kv/NS?cursor=x")},
		"GET /v1/kv/{namespace}/{key}":         {get(object), get("/v1/kv/NS/none"), get("/v1/kv/NS/%01")},
		"HEAD /v1/kv/{namespace}/{key}":        {bare("HEAD", object), bare("HEAD", "/v1/kv/NS/none")},
		"PUT /v1/kv/{namespace}/{key}":         {body("PUT", object, api.MediaOctets, "x"), body("PUT", object+"?overwrite=1", api.MediaOctets, "x"), body("PUT", "/v1/kv/NS/new", "", "x")},
		"DELETE /v1/kv/{namespace}/{key}":      {bare("DELETE", object), bare("DELETE", object+"?force=1"), bare("DELETE", "/v1/kv/NS/none")},
		"POST /v1/batch/lookup":                slices.Concat(batch("lookup", keys), batch("lookup", keys+`,"lease":{}`), batch("lookup", `,"keys":[]`)),
		"POST /v1/batch/load":                  slices.Concat(batch("load", keys), batch("load", `,"keys":[]`)),
		"POST /v1/batch/store":                 {body("POST", "/v1/batch/store?namespace=NS", api.MediaFrames, `{"key":"k","bytes":1}`+"\nx"), body("POST", "/v1/batch/store?namespace=NS", api.MediaFrames, "broken")},
		"POST /v1/batch/remove":                slices.Concat(batch("remove", keys), batch("remove", keys+`,"force":true`), batch("remove", `,"keys":[]`)),
		"POST /v1/batch/pin":                   slices.Concat(batch("pin", keys), batch("pin", `,"keys":[]`)),
		"POST /v1/batch/unpin":                 slices.Concat(batch("unpin", `,"lease":"ID"`), batch("unpin", `,"lease":"ID"`+keys)),
		"POST /v1/batch/touch":                 slices.Concat(batch("touch", keys), batch("touch", `,"keys":[]`)),
		"GET /v1/leases":                       {get("/v1/leases"), get("/v1/leases?namespace=NS")},
		"GET /v1/leases/{id}":                  {get("/v1/leases/ID")},
		"POST /v1/leases/{id}/renew":           {bare("POST", "/v1/leases/ID/renew")},
		"POST /v1/leases/{id}/release":         {bare("POST", "/v1/leases/ID/release")},
		"POST /v1/kv/{namespace}/{key}/leases": {bare("POST", object+"/leases"), bare("POST", "/v1/kv/NS/none/leases")},
		"GET /v1/events":                       {get("/v1/events?namespace=NS&follow=false"), get("/v1/events?namespace=NS&since=1&follow=0")},
		"GET /v1/explain/{namespace}/{key}":    {get("/v1/explain/NS/" + tenantKey), get("/v1/explain/NS/none")},
		"GET /v1/namespaces":                   {get("/v1/namespaces")},
		"GET /v1/namespaces/{namespace}":       {get("/v1/namespaces/NS")},
		"POST /v1/kv/{namespace}/clear":        {body("POST", "/v1/kv/NS/clear", api.MediaJSON, `{"confirm":"NS"}`), body("POST", "/v1/kv/NS/clear", api.MediaJSON, `{"confirm":"no"}`)},
		"GET /v1/info":                         {get("/v1/info")},
		"GET /healthz":                         {get("/healthz")},
		"HEAD /healthz":                        {bare("HEAD", "/healthz")},
		"GET /readyz":                          {get("/readyz")},
		"HEAD /readyz":                         {bare("HEAD", "/readyz")},
		"GET /openapi.json":                    {known("/openapi.json")},
	}
}

// tenants is a rig in which tenant b has a key and a lease in "other".
type tenants struct {
	*rig
	a, b  *http.Client
	lease string
}

func newTenants(t *testing.T, client func(*rig) *http.Client) *tenants {
	t.Helper()
	r := newAuthRig(t)
	c := client(r)
	s := &tenants{rig: r, a: as(c, tokenA), b: as(c, tokenB)}
	s.give(t)
	return s
}

// give stores b's key, if it is not there, and takes a lease on it.
func (s *tenants) give(t *testing.T) {
	t.Helper()
	storeFrames(t, s.b, "namespace=other", frames(tenantKey, []byte("bytes of b"))).ok(t)
	var pinned api.PinResponse
	post(t, s.b, "/v1/batch/pin", `{"namespace":"other","keys":["`+tenantKey+`"]}`, &pinned)
	s.lease = pinned.Lease.ID
}

// Two names and two ids of the same lengths: what is b's, and what is nobody's.
const (
	nobodys      = "nowhr"
	nobodysLease = "0123456789abcdef0123456789abcdef"
)

// TestTenantsAreBlind: on every route, what tenant a is told about what is
// tenant b's is what it is told about what does not exist, to the byte.
func TestTenantsAreBlind(t *testing.T) {
	all := probes()
	for name, kind := range map[string]Kind{"tcp": TCP, "unix": Unix} {
		connect := map[Kind]func(*rig) *http.Client{
			TCP:  func(r *rig) *http.Client { c, _ := r.tcp(); return c },
			Unix: func(r *rig) *http.Client { return r.unix() },
		}[kind]
		for _, rt := range (&Server{}).dataRoutes(kind).routes {
			for method := range rt.methods {
				t.Run(name+" "+method+" "+rt.pattern, func(t *testing.T) {
					s := newTenants(t, connect)
					for _, p := range all[method+" "+rt.pattern] {
						s.give(t)
						s.blind(t, p)
					}
					if all[method+" "+rt.pattern] == nil && !s.forbidden(t, method, rt.pattern) {
						t.Error("this route is not in probes, so nobody knows whether it shows other tenants' namespaces: add it")
					}
				})
			}
		}
	}
}

// forbidden tells whether a route is for administrators alone.
func (s *tenants) forbidden(t *testing.T, method, pattern string) bool {
	t.Helper()
	a := send(t, s.a, bare(method, strings.NewReplacer("{", "", "}", "").Replace(pattern))("", ""))
	return a.code == http.StatusForbidden && a.problem().Code == api.CodeForbidden
}

func (s *tenants) blind(t *testing.T, p probe) {
	t.Helper()
	s.same(t, p, "other", nobodys)
	s.same(t, p, "other", "ghost") // what the store says, not the tokens
	what := p("other", s.lease)
	if strings.Contains(what.URL.Path, "/leases/") || strings.HasSuffix(what.URL.Path, "/unpin") {
		s.same(t, p, "default", "default") // in its own namespace, with another's lease
	}
	what.URL.RawQuery = strings.Replace(what.URL.RawQuery, "cursor=x", "", 1)
	switch a := send(t, s.b, what); {
	case a.code == http.StatusUnauthorized, a.code == http.StatusForbidden, strings.HasPrefix(a.problem().Code, "unknown_"):
		t.Errorf("%s %s: tenant b itself got %d %s, so the request is no test", what.Method, what.URL, a.code, a.body)
	}
}

// same asks for ns and b's lease, and for none and nobody's.
func (s *tenants) same(t *testing.T, p probe, ns, none string) {
	t.Helper()
	what := p(ns, s.lease)
	theirs, nothing := send(t, s.a, what), send(t, s.a, p(none, nobodysLease))
	rename := strings.NewReplacer(ns, none, s.lease, nobodysLease)
	if theirs.code != nothing.code || rename.Replace(string(theirs.body)) != string(nothing.body) {
		t.Errorf("%s %s: got\n%d %s, and of what does not exist\n%d %s", what.Method, what.URL, theirs.code, theirs.body, nothing.code, nothing.body)
	}
	theirs.header.Del("Date")
	nothing.header.Del("Date")
	if diff := cmp.Diff(theirs.header, nothing.header); diff != "" {
		t.Errorf("%s %s: other headers than of what does not exist:\n%s", what.Method, what.URL, diff)
	}
	if ns == "other" {
		clean := strings.ReplaceAll(string(nothing.body), none, "")
		if strings.Contains(clean, "other") || strings.Contains(string(theirs.body), "bytes of b") {
			t.Errorf("%s %s: tells of the other tenant: %s", what.Method, what.URL, theirs.body)
		}
	}
}

// An administrator of some namespaces changes those alone, and does not see the
// others.
func TestAdministratorOfOne(t *testing.T) {
	s := newTenants(t, func(r *rig) *http.Client { c, _ := r.tcp(); return c })
	only, err := tokens.Parse("tokens", []byte("- {name: a, token: "+tokenA+", namespaces: [default, ghost], admin: true}\n- {name: b, token: "+tokenB+", namespaces: [other]}\n"))
	must(t, err)
	s.srv.SetTokens(only)
	for _, p := range []probe{
		bare("DELETE", "/v1/namespaces/NS"),
		body("PUT", "/v1/namespaces/NS", api.MediaJSON, `{"ttl_ms":1000}`),
		get("/v1/namespaces"), get("/v1/namespaces/NS"), get("/v1/info"),
	} {
		s.same(t, p, "other", nobodys)
	}
	do(t, s.b, "GET", "/v1/kv/other/"+tenantKey, nil).ok(t)
	do(t, s.a, "PUT", "/v1/namespaces/ghost", strings.NewReader(`{}`), "Content-Type", api.MediaJSON).ok(t)
	do(t, s.a, "GET", "/v1/kv/ghost", nil).ok(t)
}

// What tenant a asked for harmed nothing of b's.
func TestTenantsCannotHarm(t *testing.T) {
	s := newTenants(t, func(r *rig) *http.Client { return r.unix() })
	for _, ps := range probes() {
		for _, p := range ps {
			send(t, s.a, p("other", s.lease))
			send(t, s.a, p("default", s.lease))
		}
	}
	if a := do(t, s.b, "GET", "/v1/kv/other/"+tenantKey, nil).ok(t); string(a.body) != "bytes of b" {
		t.Errorf("got %q", a.body)
	}
	var list api.ListResponse
	must(t, json.Unmarshal(do(t, s.b, "GET", "/v1/kv/other", nil).ok(t).body, &list))
	if len(list.Entries) != 1 || !list.Entries[0].Pinned {
		t.Errorf("got %+v, want the one key, pinned", list.Entries)
	}
	do(t, s.b, "GET", "/v1/leases/"+s.lease, nil).ok(t)
}

// Each sees its own in the lists, and the operator all.
func TestTenantsSeeTheirOwn(t *testing.T) {
	s := newTenants(t, func(r *rig) *http.Client { return r.unix() })
	for token, want := range map[string]struct {
		names  []string
		leases int
	}{tokenA: {[]string{"default"}, 0}, tokenB: {[]string{"other"}, 1}, tokenAdm: {[]string{"default", "other"}, 1}} {
		c := as(s.rig.unix(), token)
		var info api.Info
		must(t, json.Unmarshal(do(t, c, "GET", "/v1/info", nil).ok(t).body, &info))
		if !slices.Equal(info.Namespaces, want.names) {
			t.Errorf("%s: sees %v, want %v", token, info.Namespaces, want.names)
		}
		var spaces api.NamespacesResponse
		must(t, json.Unmarshal(do(t, c, "GET", "/v1/namespaces", nil).ok(t).body, &spaces))
		var names []string
		for _, n := range spaces.Namespaces {
			names = append(names, n.Name)
		}
		if !slices.Equal(names, want.names) {
			t.Errorf("%s: sees namespaces %v, want %v", token, names, want.names)
		}
		var leases api.LeasesResponse
		must(t, json.Unmarshal(do(t, c, "GET", "/v1/leases", nil).ok(t).body, &leases))
		if len(leases.Leases) != want.leases {
			t.Errorf("%s: sees %d leases, want %d", token, len(leases.Leases), want.leases)
		}
	}
}
