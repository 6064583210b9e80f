// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/store"
	"github.com/rawblockd/rawblockd/tokens"
)

// A stream of events has no end, so the rights of its reader are those that its
// token has now.
func TestStreamsFollowTheTokens(t *testing.T) {
	set := func(text string) *tokens.Set {
		s, err := tokens.Parse("tokens", []byte(text))
		must(t, err)
		return s
	}
	const b = "- {name: b, token: " + tokenB + ", namespaces: [other]}\n"
	for name, tt := range map[string]struct {
		before, after *tokens.Set
		unix          bool
		token         string
		query         string
		want          []string // of a key stored in "default" and one in "other"; then the stream goes on, or has ended
		ends          bool
	}{
		"the same":               {testTokens(t), testTokens(t), false, tokenA, "", []string{"default"}, false},
		"none needed any more":   {testTokens(t), nil, false, tokenA, "", []string{"default"}, false},
		"revoked":                {testTokens(t), set(b), false, tokenA, "", nil, true},
		"under another name":     {testTokens(t), set("- {name: x, token: " + tokenA + ", namespaces: [ghost, default]}"), false, tokenA, "", []string{"default"}, false},
		"other namespaces":       {testTokens(t), set("- {name: x, token: " + tokenA + ", namespaces: [other]}"), false, tokenA, "", nil, true},
		"more namespaces":        {testTokens(t), set("- {name: x, token: " + tokenA + ", namespaces: [default, other]}"), false, tokenA, "", nil, true},
		"all namespaces":         {testTokens(t), set("- {name: x, token: " + tokenA + ", namespaces: ['*']}"), false, tokenA, "", nil, true},
		"more, but of the one":   {testTokens(t), set("- {name: x, token: " + tokenA + ", namespaces: ['*']}"), false, tokenA, "namespace=default&", []string{"default"}, false},
		"without the one it has": {testTokens(t), set("- {name: x, token: " + tokenA + ", namespaces: [other]}"), false, tokenA, "namespace=default&", nil, true},
		"needed now":             {nil, testTokens(t), false, "", "", nil, true},
		"on the socket":          {nil, testTokens(t), true, "", "", []string{"default", "other"}, false},
		"revoked on the socket":  {testTokens(t), set(b), true, tokenA, "", nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.srv.SetTokens(tt.before)
			unix := r.unix()
			c := unix
			if !tt.unix {
				c, _ = r.tcp()
			}
			if tt.token != "" {
				c = as(c, tt.token)
			}
			s := openEvents(t, c, tt.query+"instance="+testInstance)
			defer s.close()
			for s.next().Event != api.EventSynced {
			}
			r.srv.SetTokens(tt.after)
			for _, ns := range []string{"default", "other"} {
				storeFrames(t, unix, "namespace="+ns, frames("k", []byte("x"))).ok(t)
			}
			for _, ns := range tt.want {
				if ev := s.next(); ev.Namespace != ns {
					t.Errorf("got %+v, want one of %s", ev, ns)
				}
			}
			if tt.ends {
				s.ends()
			}
		})
	}
	t.Run("long after the last line", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newAuthRig(t, func(o *rigOptions) { o.pace = testPace })
			l := newPipe()
			r.serve(l, r.srv.DataHandler(Unix))
			c := dialing(t, l.dial)
			s := openEvents(t, as(c, tokenA), "")
			s.want("+0 synced")
			time.Sleep(14 * time.Second) // a write has 10, so its deadline has passed
			r.srv.SetTokens(set(b))
			do(t, c, "PUT", "/v1/kv/default/k", strings.NewReader("x")).ok(t)
			s.ends()
		})
	})
	// One that hears of nothing ends with the next line that it would have had.
	for name, tt := range map[string]struct {
		query string
		end   func(r *rig)
	}{
		"revoked":         {"namespace=default", func(r *rig) { r.srv.SetTokens(set(b)) }},
		"of other rights": {"", func(r *rig) { r.srv.SetTokens(set("- {name: x, token: " + tokenA + ", namespaces: [default, other]}")) }},
		"its namespace left the configuration": {"namespace=default", func(r *rig) {
			must(t, r.store.Reload(context.Background(), []store.Namespace{{Name: "other"}}))
		}},
	} {
		t.Run("idle, "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newAuthRig(t, func(o *rigOptions) { o.pace = testPace })
				l := newPipe()
				r.serve(l, r.srv.DataHandler(Unix))
				s := openEvents(t, as(dialing(t, l.dial), tokenA), tt.query)
				s.want("+0 synced")
				tt.end(r)
				began := time.Now()
				s.ends()
				if took := time.Since(began); took > idleEvery {
					t.Errorf("it went on for %v", took)
				}
			})
		})
	}
	// Who has lost his stream is told why when he comes back.
	r := newRig(t)
	r.srv.SetTokens(set(b))
	tcp, _ := r.tcp()
	do(t, as(tcp, tokenA), http.MethodGet, "/v1/events", nil).want(t, 401, "unauthorized", "Authorization")
}

// Who comes back with other rights than he left with begins anew, also where he missed
// nothing; numbers of one namespace stay good.
func TestOtherRightsBeginAnew(t *testing.T) {
	r := newAuthRig(t)
	tcp, _ := r.tcp()
	c := as(tcp, tokenA)
	do(t, c, "PUT", "/v1/kv/default/k", strings.NewReader("x")).ok(t)
	read := func(query string, since uint64, want ...string) uint64 {
		t.Helper()
		s := openEvents(t, c, fmt.Sprintf("follow=false&instance=%s&since=%d%s", testInstance, since, query))
		defer s.close()
		return s.want(want...).Seq
	}
	at := read("", 0, "0 snapshot default/k 1", "+0 synced")
	one := read("&namespace=default", 0, "0 snapshot default/k 1", "+0 synced")
	if again := read("", at, "+0 synced"); again != at {
		t.Errorf("back after %d: %d", at, again)
	}
	more, err := tokens.Parse("tokens", []byte("- {name: a, token: "+tokenA+", namespaces: [default, other]}"))
	must(t, err)
	r.srv.SetTokens(more)
	if now := read("", at, "0 snapshot default/k 1", "+0 synced"); now == at {
		t.Errorf("with other rights, the number is %d as it was", now)
	}
	if again := read("&namespace=default", one, "+0 synced"); again != one {
		t.Errorf("of the one namespace, after %d: %d", one, again)
	}
}
