// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rawblockd/rawblockd/api"
)

// lines asks in the compact form; accept "" takes JSON.
func lines(query, body, accept string) (path string, r io.Reader, header []string) {
	header = []string{"Content-Type", api.MediaText}
	if accept != "" {
		header = append(header, "Accept", accept)
	}
	return "/v1/batch/lookup?" + query, strings.NewReader(body), header
}

func TestCompactLookup(t *testing.T) {
	r := newRig(t)
	c := r.unix()
	mustStore(t, c, 100, "a", "b", "c/d", ".", "é", "last")
	const asked = "a\nb\nnone\n\nc/d\n.\n\xff\né\r\né\nlast"
	want := map[int]bool{0: true, 1: true, 4: true, 5: true, 8: true, 9: true}

	path, body, header := lines("namespace=default", asked, api.MediaOctets)
	a := do(t, c, "POST", path, body, header...).ok(t)
	if len(a.body) != 2 || a.header.Get("Content-Type") != api.MediaOctets {
		t.Fatalf("got %d bytes of %s", len(a.body), a.header.Get("Content-Type"))
	}
	for i := range 16 {
		if api.Bitmap(a.body).Has(i) != want[i] {
			t.Errorf("bit %d: got %v", i, !want[i])
		}
	}
	for name, want := range map[string]string{api.HeaderKeys: "10", api.HeaderHits: "6", api.HeaderPrefixHits: "2", api.HeaderLease: ""} {
		if got := a.header.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	// The other form of the answer says why.
	path, body, header = lines("namespace=default", asked, "")
	var found api.LookupResponse
	must(t, json.Unmarshal(do(t, c, "POST", path, body, header...).ok(t).body, &found))
	const all = "ok ok missing invalid_key ok ok invalid_key invalid_key ok ok"
	if d := cmp.Diff(all, words(found.Results, func(k api.KeyResult) api.Status { return k.Status })); d != "" || found.Hits != 6 || found.PrefixHits != 2 {
		t.Errorf("got %+v %s", found, d)
	}
	// A request in JSON may want bits, and a prefix ends at the first miss.
	a = do(t, c, "POST", "/v1/batch/lookup", strings.NewReader(`{"namespace":"default","keys":["a","b","none","last"],"prefix":true}`),
		"Content-Type", api.MediaJSON, "Accept", api.MediaOctets).ok(t)
	if len(a.body) != 1 || a.body[0] != 3 || a.header.Get(api.HeaderKeys) != "4" || a.header.Get(api.HeaderHits) != "2" {
		t.Errorf("got %v %v", a.body, a.header)
	}
	path, body, header = lines("namespace=default&prefix=true", "a\nnone\nb\n", api.MediaOctets)
	if a = do(t, c, "POST", path, body, header...).ok(t); a.body[0] != 1 || a.header.Get(api.HeaderHits) != "1" {
		t.Errorf("got %v %v", a.body, a.header)
	}
	path, body, header = lines("namespace=default", "", api.MediaOctets)
	if a = do(t, c, "POST", path, body, header...).ok(t); len(a.body) != 0 || a.header.Get(api.HeaderKeys) != "0" {
		t.Errorf("no keys: got %v %v", a.body, a.header)
	}
}

func TestCompactLookupLease(t *testing.T) {
	r := newRig(t)
	c := r.unix()
	mustStore(t, c, 100, "a", "b")
	for query, want := range map[string]api.Lease{
		"":                                  {},
		"&lease_ttl_ms=0":                   {TTLMS: 30_000},
		"&lease_ttl_ms=5000":                {TTLMS: 5000},
		"&lease_owner=":                     {TTLMS: 30_000},
		"&lease_owner=me&lease_ttl_ms=1000": {TTLMS: 1000, Owner: "me"},
	} {
		path, body, header := lines("namespace=default"+query, "a\nnone\nb\n", api.MediaOctets)
		a := do(t, c, "POST", path, body, header...).ok(t)
		id := a.header.Get(api.HeaderLease)
		if (id != "") != (want.TTLMS != 0) {
			t.Errorf("%q: got lease %q", query, id)
		}
		if id == "" {
			continue
		}
		var got api.Lease
		must(t, json.Unmarshal(do(t, c, "GET", "/v1/leases/"+id, nil).ok(t).body, &got))
		if got.TTLMS != want.TTLMS || got.Owner != want.Owner || got.Entries != 2 {
			t.Errorf("%q: got %+v", query, got)
		}
	}
	path, body, header := lines("namespace=default&lease_ttl_ms=1", "none\n", api.MediaOctets)
	if a := do(t, c, "POST", path, body, header...).ok(t); a.header.Get(api.HeaderLease) != "" {
		t.Error("a lease on nothing")
	}
}

func TestCompactLookupRefusals(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.batchKeys = 3 })
	c := r.unix()
	for query, want := range map[string]struct {
		code        int
		word, field string
	}{
		"":                                  {400, "missing_field", "namespace"},
		"namespace=nowhere":                 {404, "unknown_namespace", "namespace"},
		"namespace=%ff":                     {400, "invalid_field", "namespace"},
		"namespace=default&namespace=other": {400, "invalid_field", "namespace"},
		"namespace=default&keys=a":          {400, "unknown_field", "keys"},
		"namespace=default&prefix=yes":      {400, "invalid_field", "prefix"},
		"namespace=default&lease_ttl_ms=-1": {400, "invalid_field", "lease_ttl_ms"},
		"namespace=default&deadline_ms=0":   {400, "invalid_field", "deadline_ms"},
		"namespace=default&lease_owner=%ff": {400, "invalid_field", "lease_owner"},
		"namespace=default&lease_owner=" + strings.Repeat("o", 257): {400, "invalid_field", "lease_owner"},
	} {
		path, body, header := lines(query, "a\n", api.MediaOctets)
		do(t, c, "POST", path, body, header...).want(t, want.code, want.word, want.field)
	}
	for body, ok := range map[string]bool{"a\nb\nc\n": true, "a\nb\nc": true, "a\nb\nc\n\n": false, "a\nb\nc\nd": false} {
		path, body, header := lines("namespace=default", body, "")
		a := do(t, c, "POST", path, body, header...)
		if ok {
			a.ok(t)
		} else {
			a.want(t, 413, "too_many_keys", "keys")
		}
	}
	path, body, _ := lines("namespace=default", "", "")
	do(t, c, "POST", path, io.LimitReader(zeros{}, api.MaxJSONBody(3)+1), "Content-Type", api.MediaText).want(t, 413, "body_too_large", "")
	for media, ok := range map[string]bool{
		"text/plain": true, "text/plain; charset=UTF-8": true, "text/plain;charset=us-ascii": true,
		"text/plain; charset=latin1": false, "text/plain; charset=utf-16": false, "text/html": false, "application/octet-stream": false, "text/plain; =": false,
	} {
		a := do(t, c, "POST", path, body, "Content-Type", media)
		if ok {
			a.ok(t)
		} else {
			a.want(t, 415, "unsupported_media_type", "Content-Type")
		}
	}
	// Only a lookup has this form.
	for _, op := range []string{"load", "remove", "pin", "unpin", "store"} {
		do(t, c, "POST", "/v1/batch/"+op, strings.NewReader("a\n"), "Content-Type", api.MediaText).want(t, 415, "unsupported_media_type", "Content-Type")
	}
}

// The answer is bits only for a client that names them, and not where it would
// rather have JSON.
func TestCompactLookupAccept(t *testing.T) {
	r := newRig(t)
	c := r.unix()
	for accept, bits := range map[string]bool{
		"": false, "*/*": false, "application/*": false, "application/json": false, "text/html, */*;q=0.1": false,
		"application/octet-stream": true, "application/octet-stream;q=0.5": true, "text/html, application/octet-stream": true,
		"application/json;q=0.9, application/octet-stream": true, "application/json, application/octet-stream;q=0.9": false,
		"application/octet-stream;q=0": false, "application/octet-stream;q=x": false, "application/octet-streams": false,
	} {
		path, body, header := lines("namespace=default", "a\n", accept)
		want := api.MediaJSON
		if bits {
			want = api.MediaOctets
		}
		if got := do(t, c, "POST", path, body, header...).ok(t).header.Get("Content-Type"); got != want {
			t.Errorf("Accept: %s: got %s", accept, got)
		}
	}
}

// The deadline bounds the keys' arrival too.
func TestCompactLookupDeadline(t *testing.T) {
	paced(t, time.Hour, func(_ *rig, dial func() net.Conn) {
		c := dial()
		defer c.Close()
		began := time.Now()
		a := exchangeRaw(t, c, "POST /v1/batch/lookup?namespace=default&deadline_ms=3000 HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 10\r\n\r\nabc")
		a.want(t, 504, "deadline", "")
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("took %v, want 3s", took)
		}
	})
}

// A refusal that comes before the body has been read reads it first, unless the
// client waits to be told to send it: a client that sends before it reads would
// see a reset instead of the answer.
func TestEarlyRefusalDrains(t *testing.T) {
	r := newRig(t)
	l := listen(t)
	r.serve(l, r.srv.DataHandler(Unix))
	addr := l.Addr().String()
	big := strings.Repeat("k\n", 1<<20)
	for _, request := range []string{
		"POST /v1/batch/lookup?namespace=nowhere&x=1 HTTP/1.1\r\nContent-Type: text/plain",
		"POST /v1/batch/lookup?namespace=default HTTP/1.1\r\nContent-Type: text/plain; charset=latin1",
		"POST /v1/leases/x/renew HTTP/1.1\r\nContent-Type: application/json",
		"POST /v1/kv/default/k/leases?x=1 HTTP/1.1\r\nContent-Type: application/json",
		"POST /v1/kv/default/k HTTP/1.1\r\nContent-Type: application/json",
		"POST /v1/kv/default/clear HTTP/1.1\r\nContent-Type: text/plain",
		"POST /v1/kv/default/clear?confirm=default HTTP/1.1\r\nContent-Type: application/json",
		"PUT /v1/namespaces/default?quota=1 HTTP/1.1\r\nContent-Type: application/json",
		"POST /v1/batch/touch?ttl_ms=1 HTTP/1.1\r\nContent-Type: application/json",
		"DELETE /v1/namespaces/nowhere HTTP/1.1\r\nContent-Type: application/json",
		"POST /v1/slabs/fast0/drain HTTP/1.1\r\nContent-Type: application/json",
	} {
		conn := dialUnix(t, addr)
		conn.write(request + "\r\nHost: localhost\r\n" + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(big)) + big)
		if a := conn.answer(); a.code < 400 || a.closes {
			t.Errorf("%s: got %d, closes %v", request, a.code, a.closes)
		}
		conn.write("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n") // the connection goes on
		conn.answer().ok(t)

		conn = dialUnix(t, addr)
		conn.write(request + "\r\nHost: localhost\r\nExpect: 100-continue\r\n" + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(big)))
		if a := conn.answer(); a.code < 400 || !a.closes {
			t.Errorf("%s: got %d, closes %v", request, a.code, a.closes)
		}
		conn.closed()
	}
}

func dialUnix(t *testing.T, path string) *raw {
	t.Helper()
	c, err := net.Dial("unix", path)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return newRaw(t, c)
}

// However it is asked, a key is looked up as itself: any body of lines is
// answered as the same keys are in JSON.
func FuzzCompactLookup(f *testing.F) {
	f.Add([]byte("a\nb\n\n\xff\n.\r\nc"))
	f.Add([]byte("\n"))
	r := newRig(f)
	c := r.unix()
	mustStore(f, c, 10, "a", "b", ".", "c", "/")
	f.Fuzz(func(t *testing.T, body []byte) {
		a := do(t, c, "POST", "/v1/batch/lookup?namespace=default", strings.NewReader(string(body)), "Content-Type", api.MediaText, "Accept", api.MediaOctets)
		list, err := api.DecodeKeyList(body, 100)
		if err != nil {
			a.want(t, 413, "too_many_keys", "keys")
			return
		}
		text, err := json.Marshal(list)
		must(t, err)
		var found api.LookupResponse
		post(t, c, "/v1/batch/lookup", `{"namespace":"default","keys":`+string(text)+`}`, &found)
		if want := fmt.Sprint(found.Hits); a.ok(t).header.Get(api.HeaderHits) != want {
			t.Fatalf("got %s hits, want %s", a.header.Get(api.HeaderHits), want)
		}
		for i, k := range found.Results {
			if api.Bitmap(a.body).Has(i) != (k.Status == api.StatusOK) {
				t.Fatalf("key %d %q: got %v, want %s", i, list[i], api.Bitmap(a.body).Has(i), k.Status)
			}
		}
	})
}
