// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/store"
)

// load loads keys as frames.
func load(t testing.TB, c *http.Client, keys ...string) ([]api.Frame, [][]byte) {
	t.Helper()
	body, err := json.Marshal(api.LoadRequest{Batch: api.Batch{Namespace: "default", Keys: keys}})
	must(t, err)
	a := do(t, c, "POST", "/v1/batch/load", bytes.NewReader(body), "Content-Type", api.MediaJSON).ok(t)
	if got := a.header.Get("Content-Type"); got != api.MediaFrames {
		t.Errorf("got %s, want %s", got, api.MediaFrames)
	}
	var fs []api.Frame
	var bodies [][]byte
	r := api.NewFrameReader(bytes.NewReader(a.body))
	for {
		f, err := r.Next()
		if err == io.EOF {
			return fs, bodies
		}
		must(t, err)
		b, err := io.ReadAll(r)
		must(t, err)
		fs, bodies = append(fs, f), append(bodies, b)
	}
}

func quoted(keys []string) string {
	b, _ := json.Marshal(keys)
	return string(b)
}

// The main job, through HTTP alone.
func TestBatchMainJob(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.size = 128 << 20 })
	c := r.unix()
	keys := make([]string, 32)
	for i := range keys {
		keys[i] = fmt.Sprintf("chunk/%02d", i)
	}
	mustStore(t, c, 1_124_352, keys...)
	var found api.LookupResponse
	post(t, c, "/v1/batch/lookup", `{"namespace":"default","keys":`+quoted(append(keys, "none"))+`,"lease":{"ttl_ms":60000,"owner":"rank 0"}}`, &found)
	if found.Hits != 32 || found.PrefixHits != 32 || found.Lease == nil || found.Lease.Entries != 32 || found.Lease.TTLMS != 60000 || found.Lease.ExpiresAt.Before(time.Now()) {
		t.Errorf("lookup: got %+v, lease %+v", found, found.Lease)
	}
	if d := cmp.Diff(api.KeyResult{Status: "ok", Bytes: 1_124_352}, found.Results[31]); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(api.KeyResult{Status: "missing"}, found.Results[32]); d != "" {
		t.Error(d)
	}
	fs, bodies := load(t, c, keys...)
	for i, f := range fs {
		if f.Key != keys[i] || f.Status != api.StatusOK || !bytes.Equal(bodies[i], data(keys[i], 1_124_352)) {
			t.Errorf("frame %d: got %+v and %d bytes", i, f, len(bodies[i]))
		}
	}
	var lease api.Lease
	must(t, json.Unmarshal(do(t, c, "GET", "/v1/leases/"+found.Lease.ID, nil).ok(t).body, &lease))
	if lease.Owner != "rank 0" || lease.Namespace != "default" {
		t.Errorf("lease: got %+v", lease)
	}
	var removed api.RemoveResponse
	remove := `{"namespace":"default","keys":` + quoted(keys) + `}`
	post(t, c, "/v1/batch/remove", remove, &removed)
	if removed.Removed != 0 || removed.Results[0].Status != api.StatusPinned {
		t.Errorf("remove of pinned: got %+v", removed)
	}
	do(t, c, "DELETE", api.ObjectPath("default", keys[0]), nil).want(t, 423, "pinned", "")
	var unpinned api.UnpinResponse
	post(t, c, "/v1/batch/unpin", `{"namespace":"default","lease":"`+lease.ID+`","keys":`+quoted(keys[:2])+`}`, &unpinned)
	if unpinned.Released != 2 {
		t.Errorf("unpin of two: got %+v", unpinned)
	}
	post(t, c, "/v1/batch/unpin", `{"namespace":"default","lease":"`+lease.ID+`"}`, &unpinned)
	if unpinned.Released != 30 {
		t.Errorf("unpin of the rest: got %+v", unpinned)
	}
	post(t, c, "/v1/batch/unpin", `{"namespace":"default","lease":"`+lease.ID+`"}`, nil).want(t, 404, "unknown_lease", "lease")
	do(t, c, "GET", "/v1/leases/"+lease.ID, nil).want(t, 404, "unknown_lease", "lease")
	post(t, c, "/v1/batch/remove", remove, &removed)
	if removed.Removed != 32 {
		t.Errorf("remove: got %+v", removed)
	}
}

func TestBatchEmpty(t *testing.T) {
	r := newRig(t)
	c := r.unix()
	for op, want := range map[string]string{
		"lookup": `{"results":[],"hits":0,"prefix_hits":0}`,
		"load":   "",
		"remove": `{"results":[],"removed":0}`,
		"pin":    `{"results":[]}`,
	} {
		a := post(t, c, "/v1/batch/"+op, `{"namespace":"default","keys":[]}`, nil).ok(t)
		if got := strings.TrimSpace(string(a.body)); got != want {
			t.Errorf("%s: got %s, want %s", op, got, want)
		}
	}
	a := storeFrames(t, c, "namespace=default", http.NoBody).ok(t)
	if got := strings.TrimSpace(string(a.body)); got != `{"results":[],"ok":0}` {
		t.Errorf("store: got %s", got)
	}
}

// C13, H27: a repeated key is handled by itself and harms nobody.
func TestBatchDuplicates(t *testing.T) {
	r := newRig(t)
	c := r.unix()
	var stored api.StoreResponse
	body := frames("a", data("a", 5000), "b", data("b", 5000), "a", data("x", 5000), "c", data("c", 5000))
	must(t, json.Unmarshal(storeFrames(t, c, "namespace=default", body).ok(t).body, &stored))
	if d := cmp.Diff("ok ok duplicate ok", words(stored.Results, func(k api.StoreResult) api.Status { return k.Status })); d != "" || stored.OK != 3 {
		t.Errorf("store: %s, %d ok", d, stored.OK)
	}
	var found api.LookupResponse
	post(t, c, "/v1/batch/lookup", `{"namespace":"default","keys":["a","a","c"]}`, &found)
	if found.Hits != 3 {
		t.Errorf("lookup: got %+v", found)
	}
	fs, bodies := load(t, c, "b", "a", "a")
	if len(fs) != 3 || !bytes.Equal(bodies[1], data("a", 5000)) || !bytes.Equal(bodies[2], data("a", 5000)) {
		t.Errorf("load: got %+v", fs)
	}
	var removed api.RemoveResponse
	post(t, c, "/v1/batch/remove", `{"namespace":"default","keys":["a","b","a","none"]}`, &removed)
	if d := cmp.Diff("ok ok duplicate missing", words(removed.Results, func(k api.StatusResult) api.Status { return k.Status })); d != "" || removed.Removed != 2 {
		t.Errorf("remove: %s, %d removed", d, removed.Removed)
	}
}

func words[R any](results []R, status func(R) api.Status) string {
	out := make([]string, len(results))
	for i, k := range results {
		out[i] = string(status(k))
	}
	return strings.Join(out, " ")
}

// C36 and C14 inside a batch: each is answered by itself, the rest is unharmed.
func TestBatchBadKeysAndLengths(t *testing.T) {
	r := newRig(t)
	c := r.unix()
	keys := []string{"good", "empty", "\xff", "\xfe", "new\nline", ".", "..", "", strings.Repeat("k", 1024), strings.Repeat("k", 1025), "too large", "last"}
	var items []any
	for _, k := range keys {
		n := 1000
		if k == "too large" {
			n = 8<<20 + 1
		}
		if k == "empty" {
			n = 0
		}
		items = append(items, k, data(k, n))
	}
	body := frames(items...)
	body.WriteString(`{"key":"\ud800","bytes":3}` + "\nabc")
	var stored api.StoreResponse
	must(t, json.Unmarshal(storeFrames(t, c, "namespace=default", body).ok(t).body, &stored))
	const want = "ok size_mismatch invalid_key invalid_key invalid_key ok ok invalid_key ok invalid_key too_large ok invalid_key"
	if d := cmp.Diff(want, words(stored.Results, func(k api.StoreResult) api.Status { return k.Status })); d != "" {
		t.Error(d)
	}
	for i, k := range stored.Results {
		if (k.Error == "") != (k.Status == api.StatusOK) {
			t.Errorf("frame %d: got %+v", i, k)
		}
	}
	if got := stored.Results[1].Error; got != "a payload has at least one byte" {
		t.Errorf("empty: got %q", got)
	}
	var found api.LookupResponse
	raw := "{\"namespace\":\"default\",\"keys\":[\"good\",\"\xff\",\"\xfe\",\"\\ud800\",\"\\udfff\",\"\",\".\",\"..\",\"a\\nb\",\"last\"]}"
	post(t, c, "/v1/batch/lookup", raw, &found)
	const wantFound = "ok invalid_key invalid_key invalid_key invalid_key invalid_key ok ok invalid_key ok"
	if d := cmp.Diff(wantFound, words(found.Results, func(k api.KeyResult) api.Status { return k.Status })); d != "" {
		t.Error(d)
	}
	fs, bodies := load(t, c, ".", "\xff", "..")
	if len(fs) != 3 || !bytes.Equal(bodies[0], data(".", 1000)) || fs[1].Status != api.StatusInvalidKey || !bytes.Equal(bodies[2], data("..", 1000)) {
		t.Errorf("load: got %+v", fs)
	}
	var removed api.RemoveResponse
	post(t, c, "/v1/batch/remove", "{\"namespace\":\"default\",\"keys\":[\"\xff\",\"\\ud800\",\".\"]}", &removed)
	if removed.Removed != 1 {
		t.Errorf("remove: got %+v", removed)
	}
	if n := r.store.Status().Entries; n != 4 {
		t.Errorf("%d entries, want 4", n)
	}
}

// A malformed body publishes nothing, not even the frames before the fault.
func TestBatchStoreMalformed(t *testing.T) {
	r := newRig(t)
	c := r.unix()
	good := frames("a", data("a", 300_000), "b", data("b", 300_000)).String()
	for name, c2 := range map[string]struct{ tail, field string }{
		"no JSON":         {"hello\n", ""},
		"cut line":        {`{"key":"c","by`, ""},
		"cut body":        {`{"key":"c","bytes":10}` + "\nabc", "bytes"},
		"negative length": {`{"key":"c","bytes":-1}` + "\n", "bytes"},
		"no length":       {`{"key":"c"}` + "\n", "bytes"},
		"unknown field":   {`{"key":"c","bytes":1,"size":1}` + "\nx", "size"},
		"status of a hit": {`{"key":"c","status":"missing","bytes":0}` + "\n", "status"},
		"cut too large":   {`{"key":"c","bytes":99999999999}` + "\nabc", "bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			storeFrames(t, c, "namespace=default", strings.NewReader(good+c2.tail)).want(t, 400, "malformed_frame", c2.field)
			if n := r.store.Status().Entries; n != 0 {
				t.Errorf("%d entries, want none", n)
			}
		})
	}
	mustStore(t, c, 300_000, "a", "b") // nor is anything still claimed
}

func TestBatchRefusals(t *testing.T) {
	r := newRig(t)
	c := r.unix()
	frame := func() io.Reader { return frames("a", []byte("x")) }
	storeFrames(t, c, "", frame()).want(t, 400, "missing_field", "namespace")
	storeFrames(t, c, "namespace=nowhere", frame()).want(t, 404, "unknown_namespace", "namespace")
	storeFrames(t, c, "namespace=default&after=%ff", frame()).want(t, 400, "invalid_field", "after")
	storeFrames(t, c, "namespace=default&keys=a", frame()).want(t, 400, "unknown_field", "keys")
	post(t, c, "/v1/batch/store", `{"namespace":"default","keys":["a"],"from":{"buffer":"x"}}`, nil).want(t, 400, "unsupported_field", "from")
	post(t, c, "/v1/batch/load", `{"namespace":"default","keys":["a"],"into":{"buffer":"x"}}`, nil).want(t, 400, "unsupported_field", "into")
	for _, op := range []string{"lookup", "load", "remove", "pin"} {
		post(t, c, "/v1/batch/"+op, `{"keys":["a"]}`, nil).want(t, 400, "missing_field", "namespace")
		post(t, c, "/v1/batch/"+op, `{"namespace":"nowhere","keys":["a"]}`, nil).want(t, 404, "unknown_namespace", "namespace")
		post(t, c, "/v1/batch/"+op, `{"namespace":"default","keys":["a"`, nil).want(t, 400, "malformed_json", "")
		post(t, c, "/v1/batch/"+op, `{"namespace":"default","keys":["a"],"kyes":[]}`, nil).want(t, 400, "unknown_field", "kyes")
		post(t, c, "/v1/batch/"+op+"?namespace=default", `{"namespace":"default","keys":["a"]}`, nil).want(t, 400, "unknown_field", "namespace")
		do(t, c, "POST", "/v1/batch/"+op, strings.NewReader(`{}`), "Content-Type", "application/x-www-form-urlencoded").want(t, 415, "unsupported_media_type", "Content-Type")
		do(t, c, "POST", "/v1/batch/"+op, strings.NewReader(`{}`)).want(t, 415, "unsupported_media_type", "Content-Type")
		do(t, c, "GET", "/v1/batch/"+op, nil).want(t, 405, "method_not_allowed", "")
	}
	post(t, c, "/v1/batch/clear", `{}`, nil).want(t, 404, "not_found", "path")
	if got := do(t, c, "PATCH", "/v1/kv/default/k", nil).header.Get("Allow"); got != "DELETE, GET, HEAD, PUT" {
		t.Errorf("Allow: got %s", got)
	}
}

func TestBatchTooManyKeys(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.batchKeys = 3 })
	c := r.unix()
	post(t, c, "/v1/batch/lookup", `{"namespace":"default","keys":["a","b","c"]}`, nil).ok(t)
	post(t, c, "/v1/batch/lookup", `{"namespace":"default","keys":["a","b","c","d"]}`, nil).want(t, 413, "too_many_keys", "keys")
	x := []byte("x")
	storeFrames(t, c, "namespace=default", frames("a", x, "b", x, "c", x, "d", x)).want(t, 413, "too_many_keys", "keys")
	if n := r.store.Status().Entries; n != 0 {
		t.Errorf("%d entries, want none", n)
	}
	huge := io.LimitReader(zeros{}, api.MaxJSONBody(3)+1)
	do(t, c, "POST", "/v1/batch/lookup", huge, "Content-Type", api.MediaJSON).want(t, 413, "body_too_large", "")
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// Payloads leave in writes of at least 256 KiB, straight from the arena.
func TestLoadWritesLarge(t *testing.T) {
	r := newRig(t)
	c := r.unix()
	mustStore(t, c, 8<<20, "a", "b")
	r.conns.reset()
	fs, _ := load(t, c, "a", "b")
	if len(fs) != 2 || fs[1].Bytes != 8<<20 {
		t.Fatalf("got %+v", fs)
	}
	small, large := r.conns.count()
	if large < 15<<20 || small > 1<<20 {
		t.Errorf("%d bytes in writes of 256 KiB and more, %d in smaller ones", large, small)
	}
}

// More bytes than the stream budget go through it piece by piece, both ways.
func TestBatchBeyondBudget(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.buffers = 8 << 20; o.payload = 4 << 20 })
	c := r.unix()
	keys := make([]string, 12)
	for i := range keys {
		keys[i] = fmt.Sprint("k", i)
	}
	mustStore(t, c, 3<<20, keys...)
	fs, bodies := load(t, c, keys...)
	for i := range fs {
		if fs[i].Status != api.StatusOK || !bytes.Equal(bodies[i], data(keys[i], 3<<20)) {
			t.Errorf("frame %d: got %+v", i, fs[i])
		}
	}
}

// An answer that breaks off must not look whole.
func TestAbortHasNoEnd(t *testing.T) {
	r := newRig(t)
	mux := &router{s: r.srv}
	mux.handle("/frames", methods{"GET": func(x *exchange, _ *http.Request) error {
		_, err := x.Write(make([]byte, 100_000))
		return errors.Join(err, store.ErrClosed)
	}})
	mux.handle("/panic", methods{"GET": func(*exchange, *http.Request) error { panic("broken invariant") }})
	c := r.serveAs("", listen(t), r.srv.wrap(Unix, mux))
	resp, err := c.Get("http://localhost/frames")
	must(t, err)
	defer resp.Body.Close()
	if n, err := io.Copy(io.Discard, resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %d bytes and %v, want an unexpected EOF", n, err)
	}
	do(t, c, "GET", "/panic", nil).want(t, 500, "internal", "")
}

// A client that is gone in the middle of its frames leaves nothing.
func TestStoreClientGone(t *testing.T) {
	r := newRig(t)
	c, addr := r.tcp()
	conn := dialRaw(t, addr)
	body := frames("a", data("a", 1<<20), "b", data("b", 1<<20)).String()
	conn.write(fmt.Sprintf("POST /v1/batch/store?namespace=default HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", api.MediaFrames, len(body), body))
	must(t, conn.conn.Close())
	var found api.LookupResponse
	post(t, c, "/v1/batch/lookup", `{"namespace":"default","keys":["a","b"]}`, &found)
	if found.Hits != 0 {
		t.Errorf("got %+v, want nothing", found)
	}
	mustStore(t, c, 1<<20, "a", "b")
}

// What is refused is named in the answer, but it is not sent back whole: a body is as
// long as its sender likes.
func TestBatchLongText(t *testing.T) {
	c := newRig(t).unix()
	long := strings.Repeat("n", 100_000)
	for name, a := range map[string]answer{
		"namespace": post(t, c, "/v1/batch/remove", `{"namespace":"`+long+`","keys":["k"],"force":true}`, nil),
		"lease":     post(t, c, "/v1/batch/unpin", `{"namespace":"default","lease":"`+long+`"}`, nil),
		"confirm":   post(t, c, "/v1/kv/default/clear", `{"confirm":"`+long+`"}`, nil),
		"slabs":     do(t, c, "PUT", "/v1/namespaces/new", strings.NewReader(`{"slabs":["`+long+`"]}`), "Content-Type", "application/json"),
	} {
		a.want(t, 400, "invalid_field", name)
		if len(a.body) > 1000 {
			t.Errorf("%s: the answer has %d bytes", name, len(a.body))
		}
	}
	fs, _ := load(t, c, "k", long, "l")
	if len(fs) != 3 || fs[1].Key != "" || fs[1].Status != api.StatusInvalidKey || !strings.Contains(fs[1].Error, "more than 1024 bytes") {
		t.Errorf("load: got %+v", fs)
	}
}
