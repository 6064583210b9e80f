// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rawblockd/rawblockd/api"
)

func TestObjectLife(t *testing.T) {
	r := newRig(t)
	tcp, _ := r.tcp()
	for name, c := range map[string]struct {
		size int
	}{
		"one byte": {1}, "a block": {4096}, "a slot": {256 << 10}, "DeepSeek-V3": {1_124_352},
		"MiB less one": {1<<20 - 1}, "MiB": {1 << 20}, "the largest": {8 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			path := "/v1/kv/default/" + strconv.Itoa(c.size)
			want := data(name, c.size)
			do(t, tcp, "GET", path, nil).want(t, 404, "missing", "")
			var put api.PutResponse
			must(t, json.Unmarshal(do(t, tcp, "PUT", path, bytes.NewReader(want)).ok(t).body, &put))
			if slots := int64(c.size+256<<10-1) / (256 << 10); put.Status != api.StatusOK || put.SlotBytes != slots*(256<<10) {
				t.Errorf("put: got %+v, want %d slots", put, slots)
			}
			do(t, tcp, "PUT", path, bytes.NewReader(data("x", c.size))).want(t, 409, "exists", "")
			got := do(t, tcp, "GET", path, nil).ok(t)
			if !bytes.Equal(got.body, want) {
				t.Error("other bytes than stored")
			}
			if got.header.Get("Content-Type") != api.MediaOctets || got.header.Get("Content-Length") != strconv.Itoa(c.size) {
				t.Errorf("got header %v", got.header)
			}
			head := do(t, tcp, "HEAD", path, nil).ok(t)
			if len(head.body) != 0 || head.header.Get("Content-Length") != strconv.Itoa(c.size) {
				t.Errorf("HEAD: got %d bytes, header %v", len(head.body), head.header)
			}
			tag := got.header.Get("ETag")
			if tag == "" || head.header.Get("ETag") != tag {
				t.Errorf("ETag: GET %q, HEAD %q", tag, head.header.Get("ETag"))
			}
			do(t, tcp, "PUT", path+"?overwrite=true", bytes.NewReader(data("y", c.size))).ok(t)
			if got := do(t, tcp, "GET", path, nil).ok(t); !bytes.Equal(got.body, data("y", c.size)) || got.header.Get("ETag") == tag {
				t.Errorf("other bytes than overwritten, or the old ETag %q", tag)
			}
			do(t, tcp, "DELETE", path, nil).ok(t)
			do(t, tcp, "DELETE", path, nil).want(t, 404, "missing", "")
			if got := do(t, tcp, "HEAD", path, nil); got.code != 404 {
				t.Errorf("HEAD: got %d, want 404", got.code)
			}
		})
	}
	if c := r.slab.Counts(); c.Used != 0 {
		t.Errorf("slots after all was removed: %+v", c)
	}
}

// C36, H42: every spelling is its own key, refused, and never a redirect.
func TestObjectKeysInPaths(t *testing.T) {
	r := newRig(t)
	c := r.unix()
	own := map[string]string{ // escaped path segment → key
		"a%2Fb": "a/b", "a%252Fb": "a%2Fb", "a+b": "a+b", "a%2Bb+": "a+b+", "a%20b": "a b", "m@1@x": "m@1@x",
		"%2F": "/", "%2F%2F": "//", "a%2F": "a/", "%2Fa": "/a", "+": "+", "@": "@", "%2B%2b": "++", "%2541": "%41",
		"%D1%8F": "я", "%F0%9F%97%9D": "🗝",
		"...": "...", "%2F..%2F": "/../", "%25": "%", "%D0%BA": "к", "a;b=c&d": "a;b=c&d",
		strings.Repeat("k", 1024): strings.Repeat("k", 1024), strings.Repeat("%2F", 1024): strings.Repeat("/", 1024),
		strings.Repeat("%D1%84", 512): strings.Repeat("ф", 512),
	}
	for seg, key := range own {
		do(t, c, "PUT", "/v1/kv/default/"+seg, bytes.NewReader(data(key, 100))).ok(t)
	}
	for seg, key := range own {
		if got := do(t, c, "GET", "/v1/kv/default/"+seg, nil).ok(t); !bytes.Equal(got.body, data(key, 100)) {
			t.Errorf("%s: another key's bytes", seg)
		}
	}
	for _, key := range own {
		if a := do(t, c, "HEAD", api.ObjectPath("default", key), nil); a.code != 200 {
			t.Errorf("%q: got %d at %s", key, a.code, api.ObjectPath("default", key))
		}
	}
	var list api.ListResponse
	must(t, json.Unmarshal(do(t, c, "GET", "/v1/kv/default", nil).ok(t).body, &list))
	got := map[string]bool{}
	for _, e := range list.Entries {
		got[e.Key] = true
	}
	want := map[string]bool{}
	for _, key := range own {
		want[key] = true
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for path, word := range map[string]string{
		"/v1/kv/default/%ff":                          "invalid_key",
		"/v1/kv/default/%ed%a0%80":                    "invalid_key",
		"/v1/kv/default/a%0Ab":                        "invalid_key",
		"/v1/kv/default/a%00b":                        "invalid_key",
		"/v1/kv/default/" + strings.Repeat("k", 1025): "invalid_key",
		"/v1/kv/default/":                             "unclean_path",
		"/v1/kv/default//":                            "unclean_path",
		"/v1/kv//key":                                 "unclean_path",
		"/v1/kv/default/.":                            "unclean_path",
		"/v1/kv/default/..":                           "unclean_path",
		"/v1/kv/default/%2e%2E":                       "unclean_path",
		"/v1/kv/default/x/../a+b":                     "unclean_path",
		"//v1/kv/default/a+b":                         "unclean_path",
	} {
		for _, method := range []string{"GET", "PUT", "DELETE"} {
			var body io.Reader
			if method == "PUT" {
				body = strings.NewReader("x")
			}
			a := do(t, c, method, path, body)
			if p := a.problem(); a.code != 400 || p.Code != word {
				t.Errorf("%s %q: got %d %s, want 400 %s", method, path, a.code, a.body, word)
			}
		}
	}
	if n := r.store.Status().Entries; n != len(own) {
		t.Errorf("%d entries, want %d", n, len(own))
	}
}

// A path that holds what it should have escaped is taken as it is: decoded once
// and cut at its own slashes only.
func TestPathsEscapedTooLittle(t *testing.T) {
	r := newRig(t)
	_, addr := r.tcp()
	conn := dialRaw(t, addr)
	for sent, key := range map[string]string{`a%2F"b"`: `a/"b"`, "\xd1\x84%2F": "ф/", "<a>|%2F%25^": "<a>|/%^"} {
		conn.write("PUT /v1/kv/default/" + sent + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx")
		conn.answer().ok(t)
		conn.write("HEAD " + api.ObjectPath("default", key) + " HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if a := conn.answer(); a.code != http.StatusOK {
			t.Errorf("%s: got %d for the key %s", sent, a.code, key)
		}
	}
}

// A namespace's name may be whatever a key may be.
func TestNamespacesInPaths(t *testing.T) {
	names := []string{"/", "//", "a/", "/a", "%", "+", "@", "ф", "a b", strings.Repeat("/", 1024)}
	r := newRig(t, func(o *rigOptions) { o.spaces = names })
	c := r.unix()
	for _, ns := range names {
		do(t, c, "PUT", api.ObjectPath(ns, "/"), strings.NewReader("x")).ok(t)
	}
	for _, ns := range names {
		var list api.ListResponse
		must(t, json.Unmarshal(do(t, c, "GET", api.NamespacePath(ns), nil).ok(t).body, &list))
		if len(list.Entries) != 1 || list.Entries[0].Key != "/" {
			t.Errorf("%.10q: got %+v", ns, list)
		}
		do(t, c, "DELETE", api.ObjectPath(ns, "/"), nil).ok(t)
	}
}

// What a client has already is not sent again.
func TestIfNoneMatch(t *testing.T) {
	r := newRig(t)
	c := r.unix()
	const path = "/v1/kv/default/k"
	do(t, c, "GET", path, nil, "If-None-Match", "*").want(t, 404, "missing", "")
	mustStore(t, c, 1000, "k")
	tag := do(t, c, "GET", path, nil).ok(t).header.Get("ETag")
	for value, want := range map[string]int{
		tag: 304, "W/" + tag: 304, `"x", ` + tag: 304, "*": 304, `"x"`: 200, strings.Trim(tag, `"`): 200, "": 200,
	} {
		for _, method := range []string{"GET", "HEAD"} {
			a := do(t, c, method, path, nil, "If-None-Match", value)
			if a.code != want || a.header.Get("ETag") != tag || (len(a.body) > 0) != (want == 200 && method == "GET") {
				t.Errorf("%s %q: got %d %v and %d bytes, want %d", method, value, a.code, a.header, len(a.body), want)
			}
		}
	}
	do(t, c, "PUT", path+"?overwrite=true", strings.NewReader("new")).ok(t)
	if a := do(t, c, "GET", path, nil, "If-None-Match", tag).ok(t); string(a.body) != "new" {
		t.Errorf("got %q", a.body)
	}
}

// An encoded body would be given out as something it is not.
func TestContentEncoding(t *testing.T) {
	r := newRig(t)
	c := r.unix()
	for value, ok := range map[string]bool{"identity": true, "Identity": true, "": true, "gzip": false, "identity, br": false, "x": false} {
		for _, path := range []string{"/v1/kv/default/k?overwrite=true", "/v1/batch/store?namespace=default&overwrite=true", "/v1/batch/lookup"} {
			method, body, kind := "POST", frames("k", []byte("x")).String(), api.MediaFrames
			switch path[:9] {
			case "/v1/kv/de":
				method, kind = "PUT", api.MediaOctets
			case "/v1/batch":
				if strings.HasSuffix(path, "lookup") {
					body, kind = `{"namespace":"default","keys":["k"]}`, api.MediaJSON
				}
			}
			a := do(t, c, method, path, strings.NewReader(body), "Content-Type", kind, "Content-Encoding", value)
			if ok {
				a.ok(t)
			} else {
				a.want(t, 415, "unsupported_content_encoding", "Content-Encoding")
			}
		}
	}
}

func TestPutRefusals(t *testing.T) {
	r := newRig(t)
	c, addr := r.tcp()
	big := bytes.NewReader(make([]byte, 8<<20+1))
	do(t, c, "PUT", "/v1/kv/default/k", big).want(t, 413, "too_large", "Content-Length") // C14
	do(t, c, "PUT", "/v1/kv/nowhere/k", strings.NewReader("x")).want(t, 404, "unknown_namespace", "namespace")
	do(t, c, "PUT", "/v1/kv/default/k", io.MultiReader(strings.NewReader("x"))).want(t, 411, "length_required", "Content-Length")
	do(t, c, "PUT", "/v1/kv/default/k", strings.NewReader("x"), "Content-Type", "text/html").want(t, 415, "unsupported_media_type", "Content-Type")
	do(t, c, "PUT", "/v1/kv/default/k?overwrit=true", strings.NewReader("x")).want(t, 400, "unknown_field", "overwrit")
	do(t, c, "PUT", "/v1/kv/default/k?overwrite=yes", strings.NewReader("x")).want(t, 400, "invalid_field", "overwrite")
	do(t, c, "PUT", "/v1/kv/default/k?ttl_ms=-1", strings.NewReader("x")).want(t, 400, "invalid_field", "ttl_ms")
	do(t, c, "PUT", "/v1/kv/default/k?ttl_ms=1&ttl_ms=2", strings.NewReader("x")).want(t, 400, "invalid_field", "ttl_ms")
	for value, code := range map[string]int{"0": 400, "-5": 400, "1.5": 400, "+1": 400, "99999999999999999999": 400, "": 411} {
		t.Run("length "+value, func(t *testing.T) {
			conn := dialRaw(t, addr)
			header := "Content-Length: " + value + "\r\n"
			if value == "" {
				header = ""
			}
			conn.write("PUT /v1/kv/default/k HTTP/1.1\r\nHost: localhost\r\n" + header + "\r\n")
			a := conn.answer()
			if p := a.problem(); a.code != code || p.Field != "Content-Length" {
				t.Errorf("got %d %s, want %d that names Content-Length", a.code, a.body, code)
			}
			if a.header.Get(api.HeaderInstance) != testInstance {
				t.Error("no instance")
			}
		})
	}
	if n := r.store.Status().Entries; n != 0 {
		t.Errorf("%d entries, want none", n)
	}
}

// A client that sends before it reads gets its refusal on a living connection.
func TestRefusalDrainsBody(t *testing.T) {
	r := newRig(t)
	_, addr := r.tcp()
	conn := dialRaw(t, addr)
	body := strings.Repeat("x", 4<<20)
	for range 2 {
		conn.write(fmt.Sprintf("PUT /v1/kv/nowhere/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
		conn.answer().want(t, 404, "unknown_namespace", "namespace")
	}
	conn.write("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	conn.answer().ok(t)
}

// A refused body beyond the limit is read up to it; then the connection ends.
func TestRefusalClosesBeyondLimit(t *testing.T) {
	r := newRig(t)
	_, addr := r.tcp()
	conn := dialRaw(t, addr)
	conn.write("PUT /v1/kv/default/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n")
	piece := strings.Repeat("x", 1<<20)
	for range 9 {
		conn.write(piece)
	}
	a := conn.answer()
	a.want(t, 413, "too_large", "Content-Length")
	if !a.closes {
		t.Errorf("got header %v, want Connection: close", a.header)
	}
}

func TestExpectContinue(t *testing.T) {
	r := newRig(t)
	_, addr := r.tcp()
	const expect = "Host: localhost\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
	conn := dialRaw(t, addr)
	conn.write("PUT /v1/kv/nowhere/k HTTP/1.1\r\n" + expect)
	a := conn.answer()
	a.want(t, 404, "unknown_namespace", "namespace")
	if !a.closes {
		t.Errorf("got header %v, want Connection: close", a.header)
	}
	conn = dialRaw(t, addr)
	conn.write("PUT /v1/kv/default/k HTTP/1.1\r\n" + expect)
	line, err := conn.r.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
		t.Fatalf("got %q, %v, want 100 Continue", line, err)
	}
	must(t, second(conn.r.ReadString('\n')))
	conn.write("abc")
	conn.answer().ok(t)
	conn.write("GET /v1/kv/default/k HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if got := conn.answer().ok(t); string(got.body) != "abc" {
		t.Errorf("got %q", got.body)
	}
	// What is stored already need not be sent again.
	conn.write("PUT /v1/kv/default/k HTTP/1.1\r\n" + expect)
	conn.answer().want(t, 409, "exists", "")
}

// A body that is shorter than declared leaves nothing behind, whether the
// client waits for an answer or is gone. The rig's end counts slots and memory.
func TestShortBody(t *testing.T) {
	r := newRig(t)
	c, addr := r.tcp()
	const header = "PUT /v1/kv/default/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000000\r\n\r\n"
	conn := dialRaw(t, addr)
	conn.write(header + strings.Repeat("x", 3<<20))
	must(t, conn.conn.(interface{ CloseWrite() error }).CloseWrite())
	conn.answer().want(t, 400, "body_too_short", "Content-Length")
	conn.closed()
	conn = dialRaw(t, addr)
	conn.write(header + strings.Repeat("x", 3<<20))
	must(t, conn.conn.Close())
	do(t, c, "GET", "/v1/kv/default/k", nil).want(t, 404, "missing", "")
	do(t, c, "PUT", "/v1/kv/default/k", bytes.NewReader(data("k", 100))).ok(t) // not claimed either
}

// One flipped bit on the device: corrupt once, missing from then on.
func TestGetCorrupt(t *testing.T) {
	r := newRig(t)
	c := r.unix()
	want := data("k", 100_000)
	do(t, c, "PUT", "/v1/kv/default/k", bytes.NewReader(want)).ok(t)
	at := bytes.Index(r.dev.Peek(0, int(r.o.size)), want)
	if at < 0 {
		t.Fatal("payload is not on the device")
	}
	r.dev.FlipBit(int64(at) + 50_000)
	do(t, c, "GET", "/v1/kv/default/k", nil).want(t, 404, "corrupt", "")
	do(t, c, "GET", "/v1/kv/default/k", nil).want(t, 404, "missing", "")
}

func TestListPages(t *testing.T) {
	r := newRig(t)
	c := r.unix()
	want := map[string]bool{}
	for i := range 25 {
		key := fmt.Sprintf("key-%02d", i)
		mustStore(t, c, 100+i, key)
		want[key] = true
	}
	do(t, c, "PUT", "/v1/kv/other/foreign?ttl_ms=600000", strings.NewReader("x")).ok(t)
	got, cursor, pages := map[string]bool{}, "", 0
	for {
		var page api.ListResponse
		must(t, json.Unmarshal(do(t, c, "GET", "/v1/kv/default?limit=10&cursor="+cursor, nil).ok(t).body, &page))
		for _, e := range page.Entries {
			if got[e.Key] || e.StoredAt.IsZero() || !e.ExpiresAt.IsZero() || e.Bytes < 100 {
				t.Errorf("got %+v", e)
			}
			got[e.Key] = true
		}
		if pages++; page.Cursor == "" {
			break
		}
		cursor = page.Cursor
	}
	if d := cmp.Diff(want, got); d != "" || pages < 3 {
		t.Errorf("%d pages: %s", pages, d)
	}
	var page api.ListResponse
	must(t, json.Unmarshal(do(t, c, "GET", "/v1/kv/other", nil).ok(t).body, &page))
	if len(page.Entries) != 1 || page.Entries[0].ExpiresAt.IsZero() {
		t.Errorf("got %+v, want one entry that expires", page)
	}
	do(t, c, "GET", "/v1/kv/default?limit=0", nil).want(t, 400, "invalid_field", "limit")
	do(t, c, "GET", "/v1/kv/default?cursor=x", nil).want(t, 400, "invalid_field", "cursor")
	do(t, c, "GET", "/v1/kv/nowhere", nil).want(t, 404, "unknown_namespace", "namespace")
}
