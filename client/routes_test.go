// SPDX-License-Identifier: Apache-2.0

package client

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rawblockd/rawblockd/api"
)

// What each method sends, to the byte.
func TestRequests(t *testing.T) {
	var got []string
	h := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("Content-Type")+" "+string(body)))
		_, _ = w.Write([]byte("{}"))
	}
	serve(t, h, func(t *testing.T, c *Client) {
		got = nil
		ctx := t.Context()
		const odd = "a/b ?%é"
		d := c.In("n/s")
		_, e1 := c.Touch(ctx, []string{"a", "\xff"}, time.Minute)
		_, e2 := c.Touch(ctx, nil, 0)
		_, e3 := c.Namespaces(ctx)
		_, e4 := d.Settings(ctx)
		_, e5 := d.PutSettings(ctx, api.NamespaceRequest{Quota: new(int64), Slabs: &[]string{}})
		e6 := d.DeleteNamespace(ctx)
		_, e7 := d.Clear(ctx)
		_, e8 := d.Explain(ctx, odd)
		_, e9 := c.Lease(ctx, "id")
		_, e10 := c.Renew(ctx, "id", 1500*time.Millisecond)
		_, e11 := c.Renew(ctx, "id", 0)
		_, e12 := c.Release(ctx, "id")
		_, e13 := d.Stage(ctx, odd, time.Second, 1500*time.Millisecond)
		_, e14 := c.Stage(ctx, "clear", 0, 0)
		_, e15 := c.Slabs(ctx)
		_, e16 := c.Drain(ctx, "fast0")
		_, e17 := c.Resume(ctx, "fast0")
		_, e18 := c.Requests(ctx)
		_, e19 := c.Scrub(ctx, "fast0")
		if err := errors.Join(e1, e2, e3, e4, e5, e6, e7, e8, e9, e10, e11, e12, e13, e14, e15, e16, e17, e18, e19); err != nil {
			t.Fatal(err)
		}
		want := []string{
			`POST /v1/batch/touch application/json {"namespace":"ns","keys":["a",""],"ttl_ms":60000}`,
			`POST /v1/batch/touch application/json {"namespace":"ns","keys":[]}`,
			`GET /v1/namespaces`,
			`GET /v1/namespaces/n%2Fs`,
			`PUT /v1/namespaces/n%2Fs application/json {"slabs":[],"quota":0}`,
			`DELETE /v1/namespaces/n%2Fs`,
			`POST /v1/kv/n%2Fs/clear application/json {"confirm":"n/s"}`,
			`GET /v1/explain/n%2Fs/a%2Fb%20%3F%25%C3%A9`,
			`GET /v1/leases/id`,
			`POST /v1/leases/id/renew?ttl_ms=1500`,
			`POST /v1/leases/id/renew`,
			`POST /v1/leases/id/release`,
			`POST /v1/kv/n%2Fs/a%2Fb%20%3F%25%C3%A9/leases?timeout_ms=1000&ttl_s=1.5`,
			`POST /v1/kv/ns/clear/leases`,
			`GET /v1/slabs`,
			`POST /v1/slabs/fast0/drain`,
			`POST /v1/slabs/fast0/resume`,
			`GET /v1/requests`,
			`POST /v1/slabs/fast0/scrub`,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestLookupBits(t *testing.T) {
	var sent, query string
	answer := func(w http.ResponseWriter, keys, hits, prefix, lease, bits string) {
		h := w.Header()
		h.Set(api.HeaderKeys, keys)
		h.Set(api.HeaderHits, hits)
		h.Set(api.HeaderPrefixHits, prefix)
		if lease != "" {
			h.Set(api.HeaderLease, lease)
		}
		_, _ = io.WriteString(w, bits)
	}
	h := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent, query = string(body), r.URL.RawQuery
		if r.Header.Get("Content-Type") != api.MediaText || r.Header.Get("Accept") != api.MediaOctets {
			problem(w, api.NewProblem(415, api.CodeMediaType, "", ""))
			return
		}
		switch r.URL.Query().Get("lease_owner") {
		case "short":
			answer(w, "9", "1", "1", "", "\x01")
		case "long":
			answer(w, "9", "1", "1", "", "\x01\x00\x00")
		case "other":
			answer(w, "8", "1", "1", "", "\x01")
		case "none":
			_, _ = io.WriteString(w, "\x01\x00")
		default:
			answer(w, "9", "3", "1", "id", "\x05\x01")
		}
	}
	keys := []string{"a", "b", "c/d", "", "x\ny", "é", "f", "g", "last"}
	serve(t, h, func(t *testing.T, c *Client) {
		got, err := c.LookupBits(t.Context(), keys, LookupOptions{Prefix: true, Lease: &Lease{TTL: time.Second, Owner: "o p"}})
		if d := cmp.Diff(Found{Keys: 9, Hits: 3, PrefixHits: 1, Lease: "id", Bits: api.Bitmap{5, 1}}, got); d != "" || err != nil {
			t.Errorf("%v %s", err, d)
		}
		if want := "a\nb\nc/d\n\n\né\nf\ng\nlast\n"; sent != want {
			t.Errorf("sent %q, want %q", sent, want)
		}
		if want := "lease_owner=o+p&lease_ttl_ms=1000&namespace=ns&prefix=true"; query != want {
			t.Errorf("sent %s, want %s", query, want)
		}
		if _, err := c.LookupBits(t.Context(), keys, LookupOptions{Lease: &Lease{}}); err != nil || query != "lease_ttl_ms=0&namespace=ns" {
			t.Errorf("a lease of the default: sent %s, %v", query, err)
		}
		if _, err := c.LookupBits(t.Context(), keys, LookupOptions{}); err != nil || query != "namespace=ns" {
			t.Errorf("no lease: sent %s, %v", query, err)
		}
		for _, owner := range []string{"short", "long", "other", "none"} {
			if got, err := c.LookupBits(t.Context(), keys, LookupOptions{Lease: &Lease{Owner: owner}}); err == nil {
				t.Errorf("%s: got %+v", owner, got)
			}
		}
	})
}

func TestEvents(t *testing.T) {
	var query string
	h := func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.RawQuery
		w.Header().Set(api.HeaderInstance, "i1")
		_, _ = io.WriteString(w, `{"seq":1,"event":"stored","namespace":"ns","key":"a","bytes":7,"at":"2026-01-02T03:04:05Z"}`+"\n")
		if r.URL.Query().Get("follow") == "false" {
			_, _ = io.WriteString(w, `{"seq":2,"event":"synced","at":"2026-01-02T03:04:05Z"}`+"\n")
			return
		}
		_, _ = io.WriteString(w, `{"seq":2,"ev`)
		if r.URL.Query().Has("since") {
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	}
	serve(t, h, func(t *testing.T, c *Client) {
		for _, run := range []struct {
			o     EventOptions
			query string
			whole bool
		}{
			{EventOptions{Once: true}, "follow=false&namespace=ns", true},
			{EventOptions{All: true}, "", false},
			{EventOptions{Since: 9, Instance: "i0"}, "instance=i0&namespace=ns&since=9", false},
		} {
			ev, err := c.Events(t.Context(), run.o)
			if err != nil {
				t.Fatal(err)
			}
			first, err := ev.Next()
			want := api.Event{Seq: 1, Event: api.EventStored, Namespace: "ns", Key: "a", Bytes: 7, At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
			if d := cmp.Diff(want, first); d != "" || err != nil || ev.Instance != "i1" || query != run.query {
				t.Errorf("%+v: %v %s, instance %q, sent %q", run.o, err, d, ev.Instance, query)
			}
			second, err := ev.Next()
			if run.whole {
				if second.Event != api.EventSynced || err != nil {
					t.Errorf("got %+v, %v", second, err)
				}
				if _, err = ev.Next(); err != io.EOF {
					t.Errorf("got %v, want the end", err)
				}
			} else if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), c.Addr()) {
				t.Errorf("got %+v, %v, want a broken stream", second, err)
			}
			if err := ev.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestSlabMap(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.RequestURI() {
		case "/v1/slabs/fast0/map?count=3&from=7":
			w.Header().Set(api.HeaderSlots, "9")
			_, _ = w.Write([]byte{api.SlotFree, api.SlotUsed | api.SlotPinned})
		case "/v1/slabs/fast0/map?count=1&from=0":
			w.Header().Set(api.HeaderSlots, "9")
			_, _ = w.Write([]byte{1, 1})
		default:
			problem(w, api.NewProblem(404, api.CodeUnknownSlab, "slab", "%s", r.URL))
		}
	}
	serve(t, h, func(t *testing.T, c *Client) {
		got, total, err := c.SlabMap(t.Context(), "fast0", 7, 3)
		if d := cmp.Diff([]byte{1, 0x83}, got); d != "" || total != 9 || err != nil {
			t.Errorf("got %d slots, %v, %s", total, err, d)
		}
		if _, _, err := c.SlabMap(t.Context(), "fast0", 0, 1); err == nil {
			t.Error("more slots than asked for are no error")
		}
		_, _, err = c.SlabMap(t.Context(), "x", 0, 1)
		var e *Error
		if !errors.As(err, &e) || e.Code() != api.CodeUnknownSlab {
			t.Errorf("got %v", err)
		}
	})
}

// A negative time is refused before anything is sent.
func TestNegativeTimes(t *testing.T) {
	h := func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") }
	serve(t, h, func(t *testing.T, c *Client) {
		ctx := t.Context()
		_, touch := c.Touch(ctx, nil, -1)
		_, renew := c.Renew(ctx, "id", -1)
		_, stage := c.Stage(ctx, "k", 0, -1)
		_, wait := c.Stage(ctx, "k", -1, 0)
		_, bits := c.LookupBits(ctx, nil, LookupOptions{Lease: &Lease{TTL: -1}})
		for name, err := range map[string]error{"touch": touch, "renew": renew, "stage": stage, "stage's timeout": wait, "lookup": bits} {
			if !errors.Is(err, ErrTTL) {
				t.Errorf("%s: got %v, want ErrTTL", name, err)
			}
		}
	})
}
