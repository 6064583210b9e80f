// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/rawblockd/rawblockd/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts h on TCP and on a unix socket and runs test against both.
func serve(t *testing.T, h http.HandlerFunc, test func(t *testing.T, c *Client)) {
	t.Helper()
	dir, err := os.MkdirTemp("", "rbc") // t.TempDir can be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			srv := httptest.NewUnstartedServer(h)
			addr := "unix:" + path
			if network == "unix" {
				l, err := net.Listen("unix", path)
				if err != nil {
					t.Fatal(err)
				}
				_ = srv.Listener.Close()
				srv.Listener = l
			}
			srv.Start()
			defer srv.Close()
			if network == "tcp" {
				addr = srv.URL
			}
			c, err := New(addr, "ns")
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			test(t, c)
		})
	}
}

func problem(w http.ResponseWriter, p *api.Problem) {
	w.Header().Set("Content-Type", api.MediaProblem)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", api.MediaJSON)
	_ = json.NewEncoder(w).Encode(v)
}

func TestAddresses(t *testing.T) {
	for _, addr := range []string{"unix:/run/x.sock", "http://127.0.0.1:9200", "http://127.0.0.1:9200/", "http://[::1]:1"} {
		if _, err := New(addr, "ns"); err != nil {
			t.Errorf("New(%q): %v", addr, err)
		}
	}
	for _, addr := range []string{"", "unix:", "unix:rel.sock", "127.0.0.1:9200", "/run/x.sock", "https://h:1", "http://", "http://h/path", "http://h?x=1"} {
		if _, err := New(addr, "ns"); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", addr)) {
			t.Errorf("New(%q): got %v, want an error that names it", addr, err)
		}
	}
}

func TestObjects(t *testing.T) {
	const key = "a/b ?%é"
	payload := bytes.Repeat([]byte("x"), 3<<20)
	var stored []byte
	h := func(w http.ResponseWriter, r *http.Request) {
		if got, want := r.URL.EscapedPath(), api.ObjectPath("ns", key); got != want {
			problem(w, api.NewProblem(404, api.CodeNotFound, "", "%s, want %s", got, want))
			return
		}
		switch r.Method {
		case "PUT":
			if r.URL.RawQuery != "overwrite=true&ttl_ms=1500" || r.Header.Get("Expect") != "100-continue" || r.ContentLength != 3<<20 {
				problem(w, api.NewProblem(400, api.CodeInvalidField, r.URL.RawQuery, "%v", r.Header))
				return
			}
			stored, _ = io.ReadAll(r.Body)
			reply(w, api.PutResponse{Status: api.StatusOK, SlotBytes: 4 << 20})
		case "GET", "HEAD":
			w.Header().Set("ETag", `"e"`)
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(stored))
		case "DELETE":
			if r.URL.RawQuery != "force=true" {
				problem(w, api.StatusProblem(api.StatusPinned, "lease 1"))
				return
			}
			reply(w, api.DeleteResponse{Status: api.StatusOK})
		}
	}
	serve(t, h, func(t *testing.T, c *Client) {
		ctx := t.Context()
		put, err := c.Put(ctx, key, bytes.NewReader(payload), int64(len(payload)), PutOptions{Overwrite: true, TTL: 1500 * time.Millisecond})
		if err != nil || put.SlotBytes != 4<<20 {
			t.Fatalf("put: got %+v, %v", put, err)
		}
		head, err := c.Head(ctx, key)
		if err != nil || head.Bytes != 3<<20 || head.ETag != `"e"` {
			t.Errorf("head: got %+v, %v", head, err)
		}
		o, err := c.Get(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(o.Body)
		if err != nil || !bytes.Equal(got, payload) || o.Bytes != 3<<20 {
			t.Errorf("get: got %d bytes, %v", len(got), err)
		}
		_ = o.Body.Close()
		_, err = c.Delete(ctx, key, false)
		if s, ok := StatusOf(err); !ok || s != api.StatusPinned {
			t.Errorf("delete: got %v, want pinned", err)
		}
		if d, err := c.Delete(ctx, key, true); err != nil || d.Status != api.StatusOK {
			t.Errorf("forced delete: got %+v, %v", d, err)
		}
	})
}

func TestErrors(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == "HEAD":
			w.WriteHeader(404)
		case r.URL.Path == "/v1/kv/ns/text":
			http.Error(w, "who are you", http.StatusBadGateway)
		default:
			w.Header().Set("Retry-After", "7")
			problem(w, api.StatusProblem(api.StatusUnavailable, "metadata failed"))
		}
	}
	serve(t, h, func(t *testing.T, c *Client) {
		_, err := c.Get(t.Context(), "k")
		var e *Error
		var p *api.Problem
		if !errors.As(err, &e) || e.Code() != "unavailable" || e.StatusCode != 503 || e.RetryAfter != 7*time.Second || !errors.As(err, &p) {
			t.Fatalf("got %#v", err)
		}
		want := "GET /v1/kv/ns/k at " + c.Addr() + ": the slab or the metadata is out of service: metadata failed"
		if err.Error() != want {
			t.Errorf("got  %s\nwant %s", err, want)
		}
		_, err = c.Head(t.Context(), "k")
		if s, _ := StatusOf(err); s != api.StatusMissing {
			t.Errorf("head: got %v, want missing", err)
		}
		_, err = c.Get(t.Context(), "text")
		if _, ok := StatusOf(err); ok || err == nil || !strings.Contains(err.Error(), "Bad Gateway: who are you") {
			t.Errorf("no problem: got %v", err)
		}
	})
	c, err := New("unix:"+filepath.Join(t.TempDir(), "nobody"), "ns")
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Info(t.Context())
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "GET /v1/info at unix:") {
		t.Errorf("nobody there: got %v", err)
	}
}

func TestBatchRequests(t *testing.T) {
	var got []string
	h := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, r.Method+" "+r.URL.RequestURI()+" "+string(body))
		_, _ = w.Write([]byte("{}"))
	}
	serve(t, h, func(t *testing.T, c *Client) {
		got = nil
		ctx, keys := t.Context(), []string{"a", "bad\xff"}
		_, e1 := c.Lookup(ctx, keys, LookupOptions{Prefix: true, Lease: &Lease{TTL: time.Second, Owner: "me"}})
		_, e2 := c.Lookup(ctx, nil, LookupOptions{})
		_, e3 := c.Remove(ctx, keys[:1], true)
		_, e4 := c.Pin(ctx, keys[:1], Lease{TTL: time.Minute})
		_, e5 := c.Unpin(ctx, "id", nil)
		_, e6 := c.In("other").Unpin(ctx, "id", []string{"a"})
		_, e7 := c.List(ctx, "cur", 10)
		_, e8 := c.Leases(ctx)
		_, e9 := c.Status(ctx)
		if err := errors.Join(e1, e2, e3, e4, e5, e6, e7, e8, e9); err != nil {
			t.Fatal(err)
		}
		want := []string{
			`POST /v1/batch/lookup {"namespace":"ns","keys":["a",""],"lease":{"ttl_ms":1000,"owner":"me"},"prefix":true}`,
			`POST /v1/batch/lookup {"namespace":"ns","keys":[]}`,
			`POST /v1/batch/remove {"namespace":"ns","keys":["a"],"force":true}`,
			`POST /v1/batch/pin {"namespace":"ns","keys":["a"],"ttl_ms":60000}`,
			`POST /v1/batch/unpin {"namespace":"ns","lease":"id"}`,
			`POST /v1/batch/unpin {"namespace":"other","lease":"id","keys":["a"]}`,
			`GET /v1/kv/ns?cursor=cur&limit=10 `,
			`GET /v1/leases `,
			`GET /v1/status `,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestDeadlineGoesAlong(t *testing.T) {
	var ms int64
	h := func(w http.ResponseWriter, r *http.Request) {
		var in api.LookupRequest
		_ = json.NewDecoder(r.Body).Decode(&in)
		ms = in.DeadlineMS
		_, _ = w.Write([]byte("{}"))
	}
	serve(t, h, func(t *testing.T, c *Client) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := c.Lookup(ctx, []string{"a"}, LookupOptions{}); err != nil {
			t.Fatal(err)
		}
		if ms <= 0 || ms > time.Hour.Milliseconds() {
			t.Errorf("deadline_ms: got %d, want up to an hour", ms)
		}
	})
}

func TestAllFollowsTheCursor(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("cursor") {
		case "":
			reply(w, api.ListResponse{Entries: []api.ListEntry{{Key: "a"}, {Key: "b"}}, Cursor: "2"})
		case "2":
			reply(w, api.ListResponse{Entries: []api.ListEntry{{Key: "c"}}})
		}
	}
	serve(t, h, func(t *testing.T, c *Client) {
		var keys []string
		for e, err := range c.All(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, e.Key)
		}
		if want := []string{"a", "b", "c"}; !slices.Equal(keys, want) {
			t.Errorf("got %v, want %v", keys, want)
		}
	})
}

func TestReady(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", api.MediaJSON)
		w.WriteHeader(503)
		_, _ = w.Write([]byte(`{"ready":false,"phase":"recovering","done":3,"total":9}`))
	}
	serve(t, h, func(t *testing.T, c *Client) {
		got, err := c.Ready(t.Context())
		if want := (api.Ready{Phase: "recovering", Done: 3, Total: 9}); err != nil || got != want {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	})
}

func items(list ...Item) iter.Seq[Item] { return slices.Values(list) }

func TestStoreStreams(t *testing.T) {
	big := bytes.Repeat([]byte("0123456789abcdef"), 3<<16)
	h := func(w http.ResponseWriter, r *http.Request) {
		if want := "after=p&deadline_ms="; r.Header.Get("Content-Type") != api.MediaFrames || !strings.HasPrefix(r.URL.RawQuery, "family=f&namespace=ns&overwrite=true&ttl_ms=5") {
			problem(w, api.NewProblem(400, api.CodeInvalidField, r.URL.RawQuery, "%s", want))
			return
		}
		var out api.StoreResponse
		for fr := api.NewFrameReader(r.Body); ; {
			f, err := fr.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				problem(w, api.NewProblem(400, api.CodeMalformedFrame, "", "%v", err))
				return
			}
			b, _ := io.ReadAll(fr)
			s := api.StatusOK
			if f.Key == "big" && !bytes.Equal(b, big) || f.Key == "none" && len(b) != 0 {
				s = api.StatusCorrupt
			}
			out.Results = append(out.Results, api.StoreResult{Status: s})
		}
		reply(w, out)
	}
	serve(t, h, func(t *testing.T, c *Client) {
		o := StoreOptions{Overwrite: true, TTL: 5 * time.Millisecond, Family: "f"}
		out, err := c.Store(t.Context(), items(
			Item{"big", int64(len(big)), bytes.NewReader(big)},
			Item{"none", 0, strings.NewReader("")},
			Item{"plain", 5, struct{ io.Reader }{strings.NewReader("hello")}},
		), o)
		if err != nil || len(out.Results) != 3 {
			t.Fatalf("got %+v, %v", out, err)
		}
		for i, r := range out.Results {
			if r.Status != api.StatusOK {
				t.Errorf("result %d: got %s", i, r.Status)
			}
		}
		if out, err := c.Store(t.Context(), items(), o); err != nil || len(out.Results) != 0 {
			t.Errorf("empty: got %+v, %v", out, err)
		}
	})
}

// TestStoreBreaksOff: a body that fails must not end the request as if it were
// whole.
func TestStoreBreaksOff(t *testing.T) {
	ended := make(chan error, 1)
	h := func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		ended <- err
	}
	boom := errors.New("boom")
	failing := io.MultiReader(strings.NewReader("abc"), readerFunc(func([]byte) (int, error) { return 0, boom }))
	serve(t, h, func(t *testing.T, c *Client) {
		for name, body := range map[string]io.Reader{"fails": failing, "short": strings.NewReader("abc"), "long": strings.NewReader("abcdefgh")} {
			_, err := c.Store(t.Context(), items(Item{"k", 5, body}), StoreOptions{})
			want := map[string]error{"fails": boom, "short": io.ErrUnexpectedEOF, "long": api.ErrFrame}[name]
			if !errors.Is(err, want) || !strings.Contains(err.Error(), `key "k"`) {
				t.Errorf("%s: got %v, want %v", name, err, want)
			}
			if err := <-ended; err == nil {
				t.Errorf("%s: the daemon saw the request's proper end", name)
			}
		}
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestStoreRefusedEarly: the answer wins over the broken connection, and Store
// has let go of the items when it returns.
func TestStoreRefusedEarly(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		problem(w, api.NewProblem(404, api.CodeUnknownNamespace, "namespace", ""))
	}
	serve(t, h, func(t *testing.T, c *Client) {
		inUse := false
		endless := func(yield func(Item) bool) {
			inUse = true // a race with the check below, unless Store waited
			defer func() { inUse = false }()
			for yield(Item{"k", 1 << 20, bytes.NewReader(make([]byte, 1<<20))}) {
			}
		}
		_, err := c.Store(t.Context(), endless, StoreOptions{})
		var e *Error
		if !errors.As(err, &e) || e.Code() != api.CodeUnknownNamespace {
			t.Errorf("got %v", err)
		}
		if inUse {
			t.Error("items are still in use")
		}
	})
}

func TestStoreEndsWithTheContext(t *testing.T) {
	release := make(chan struct{})
	h := func(w http.ResponseWriter, r *http.Request) { <-release }
	serve(t, h, func(t *testing.T, c *Client) {
		ctx, cancel := context.WithCancel(t.Context())
		body := readerFunc(func(p []byte) (int, error) {
			cancel() // the daemon reads nothing, so the request would never end
			return len(p), nil
		})
		_, err := c.Store(ctx, items(Item{"k", 1 << 40, body}), StoreOptions{})
		if err == nil {
			t.Error("got no error")
		}
		release <- struct{}{}
	})
}

func TestLoadStreams(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", api.MediaFrames)
		fw := api.NewFrameWriter(w)
		_ = fw.Begin(api.Frame{Key: "a", Status: api.StatusOK, Bytes: 3})
		_, _ = fw.Write([]byte("abc"))
		_ = fw.Begin(api.Frame{Key: "b", Status: api.StatusMissing})
		_ = fw.Begin(api.Frame{Key: "", Status: api.StatusInvalidKey, Error: "no"})
		_ = fw.Begin(api.Frame{Key: "c", Status: api.StatusOK, Bytes: 2})
		_, _ = fw.Write([]byte("de"))
	}
	serve(t, h, func(t *testing.T, c *Client) {
		var got []string
		for l, err := range c.Load(t.Context(), []string{"a", "b", "\xff", "c"}) {
			if err != nil {
				t.Fatal(err)
			}
			body := "-"
			if l.Body != nil && l.Key == "c" { // a's body is left unread on purpose
				b, err := io.ReadAll(l.Body)
				body = fmt.Sprint(string(b), err)
			}
			got = append(got, fmt.Sprintf("%q %s %d %s %s", l.Key, l.Status, l.Bytes, l.Error, body))
		}
		want := []string{`"a" ok 3  -`, `"b" missing 0  -`, `"\xff" invalid_key 0 no -`, `"c" ok 2  de<nil>`}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		for range c.Load(t.Context(), []string{"a", "b", "\xff", "c"}) {
			break
		}
	})
}

// TestLoadTrustsNothing gives the client answers that a broken daemon or proxy
// might.
func TestLoadTrustsNothing(t *testing.T) {
	tests := []struct {
		name, body string
		abort      bool
		want       string
	}{
		{"a frame is missing", `{"key":"a","status":"ok","bytes":1}` + "\nx", false, "ended after 1 of 2 keys"},
		{"broken off between frames", `{"key":"a","status":"ok","bytes":1}` + "\nx", true, "unexpected EOF"},
		{"broken off in a body", `{"key":"a","status":"ok","bytes":9}` + "\nx", true, "unexpected EOF"},
		{"another key", `{"key":"b","status":"ok","bytes":1}` + "\nx", false, `frame 0 is for key "b", want "a"`},
		{"no status", `{"key":"a","bytes":1}` + "\nx", false, "frame 0 has no status"},
		{"the same key again", strings.Repeat(`{"key":"a","status":"missing","bytes":0}`+"\n", 3), false, "frame 1 is for key"},
		{"one too many", `{"key":"a","status":"missing","bytes":0}` + "\n" + strings.Repeat(`{"key":"b","status":"missing","bytes":0}`+"\n", 2), false, "more than the 2 keys asked for"},
		{"no frames", "hello\n", false, "frame 0: the line is no JSON object"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := func(w http.ResponseWriter, r *http.Request) {
				_, _ = w.Write([]byte(tt.body))
				w.(http.Flusher).Flush()
				if tt.abort {
					panic(http.ErrAbortHandler)
				}
			}
			serve(t, h, func(t *testing.T, c *Client) {
				var last error
				n := 0
				for _, err := range c.Load(t.Context(), []string{"a", "b"}) {
					if last != nil {
						t.Fatal("the iteration went on after an error")
					}
					last = err
					n++
				}
				if last == nil || !strings.Contains(last.Error(), tt.want) {
					t.Errorf("got %v after %d steps, want %q", last, n, tt.want)
				}
			})
		})
	}
}

func TestConnectionsAreReused(t *testing.T) {
	remotes := map[string]bool{}
	h := func(w http.ResponseWriter, r *http.Request) {
		remotes[r.RemoteAddr] = true
		if r.URL.Path == "/v1/kv/ns/none" {
			problem(w, api.StatusProblem(api.StatusMissing, ""))
			return
		}
		reply(w, api.Info{})
	}
	serve(t, h, func(t *testing.T, c *Client) {
		clear(remotes)
		for range 5 {
			if _, err := c.Info(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Get(t.Context(), "none"); err == nil {
				t.Fatal("no error")
			}
		}
		if len(remotes) != 1 {
			t.Errorf("%d connections for 10 requests, want 1", len(remotes))
		}
	})
}
