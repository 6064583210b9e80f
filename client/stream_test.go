// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rawblockd/rawblockd/api"
)

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
		// Nor does a frame carry a key that is far too long, and that takes the others nothing.
		n := 0
		for _, err := range c.Load(t.Context(), []string{"a", "b", strings.Repeat("k", 50_000), "c"}) {
			if n++; err != nil {
				t.Errorf("far too long: %v", err)
			}
		}
		if n != 4 {
			t.Errorf("got %d keys, want 4", n)
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
