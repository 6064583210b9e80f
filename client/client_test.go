// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/internal/testdev"
)

func TestMain(m *testing.M) { testdev.Main(m) }

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
	for _, addr := range []string{"unix:/run/x.sock", "http://127.0.0.1:9200", "http://127.0.0.1:9200/", "http://[::1]:1", "https://h:1"} {
		if _, err := New(addr, "ns"); err != nil {
			t.Errorf("New(%q): %v", addr, err)
		}
	}
	for _, addr := range []string{"", "unix:", "unix:rel.sock", "127.0.0.1:9200", "/run/x.sock", "http://", "http://h/path", "http://h?x=1", "https://", "https://h/path"} {
		if _, err := New(addr, "ns"); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", addr)) {
			t.Errorf("New(%q): got %v, want an error that names it", addr, err)
		}
	}
	for _, addr := range []string{"https://secret@h:1", "http://user:secret@h:1", "http://user:secr%zzet@h:1", "secret@h:1"} {
		if _, err := New(addr, "ns"); err == nil || !strings.Contains(err.Error(), "…@h:1") || strings.Contains(err.Error(), "secr") {
			t.Errorf("New(%q): got %v, want an error that names it without what may be a password", addr, err)
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
