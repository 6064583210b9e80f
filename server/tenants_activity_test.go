// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rawblockd/rawblockd/api"
)

// reads are requests of tenant a that change nothing: what all of its routes tell
// of its own keys, mine-0 to mine-9 and none, page by page for the list.
func reads(t *testing.T, c *http.Client) []answer {
	t.Helper()
	var all []answer
	ask := func(method, path, media, body string) answer {
		var b *strings.Reader
		if b = strings.NewReader(body); media == "" {
			media = api.MediaOctets
		}
		a := do(t, c, method, path, b, "Content-Type", media)
		a.header.Del("Date")
		all = append(all, a)
		return a
	}
	for i := range 10 {
		key := fmt.Sprint("mine-", i)
		ask("GET", "/v1/kv/default/"+key, "", "")
		ask("HEAD", "/v1/kv/default/"+key, "", "")
		ask("GET", "/v1/explain/default/"+key, "", "")
		ask("PUT", "/v1/kv/default/"+key, "", "exists")
		ask("POST", "/v1/kv/default/"+key+"/leases", "", "")
	}
	for cursor, more := "", true; more; more = cursor != "" {
		page := decode[api.ListResponse](t, ask("GET", "/v1/kv/default?limit=3&cursor="+cursor, "", ""))
		cursor = page.Cursor
	}
	const keys = `{"namespace":"default","keys":["mine-0","none","mine-1","` + tenantKey + `"]}`
	for _, op := range []string{"lookup", "load", "remove"} {
		body := keys
		if op == "remove" {
			body = `{"namespace":"default","keys":["none","` + tenantKey + `"]}`
		}
		ask("POST", "/v1/batch/"+op, api.MediaJSON, body)
	}
	ask("POST", "/v1/batch/store?namespace=default", api.MediaFrames, `{"key":"mine-0","bytes":1}`+"\nx")
	ask("POST", "/v1/leases/"+nobodysLease+"/release", "", "")
	ask("POST", "/v1/batch/unpin", api.MediaJSON, `{"namespace":"default","lease":"`+nobodysLease+`"}`)
	for _, path := range []string{
		"/v1/kv/default/none", "/v1/kv/default/" + tenantKey, "/v1/explain/default/none", "/v1/explain/default/" + tenantKey,
		"/v1/namespaces", "/v1/namespaces/default", "/v1/info", "/v1/leases", "/healthz", "/readyz",
	} {
		ask("GET", path, "", "")
	}
	for _, query := range []string{"", "namespace=default", "since=1"} { // when synced was said is the time of asking
		a := ask("GET", "/v1/events?follow=false&"+query, "", "")
		all[len(all)-1].body = regexp.MustCompile(`("event":"synced","at":)"[^"]*"`).ReplaceAll(a.body, []byte(`$1"now"`))
	}
	return all
}

// busy is a lot of what tenant b can do.
func (s *tenants) busy(t *testing.T) {
	t.Helper()
	var items []any
	for i := range 20 {
		key := fmt.Sprint("theirs-", i)
		items = append(items, key, data(key, 300<<10))
	}
	storeFrames(t, s.b, "namespace=other", frames(items...)).ok(t)
	post(t, s.b, "/v1/batch/remove", `{"namespace":"other","keys":["theirs-0","theirs-7","theirs-8"],"force":true}`, nil).ok(t)
	do(t, s.b, "PUT", "/v1/kv/other/theirs-1?overwrite=true", strings.NewReader("anew")).ok(t)
	do(t, s.b, "GET", "/v1/kv/other/theirs-1", nil).ok(t)
	s.give(t)
}

// What tenant b does changes no byte of what tenant a is answered, nor does
// anything in it count what the two of them do together.
func TestTenantsActivityDoesNotShow(t *testing.T) {
	s := newTenants(t, func(r *rig) *http.Client { c, _ := r.tcp(); return c })
	for i := range 10 {
		do(t, s.a, "PUT", fmt.Sprint("/v1/kv/default/mine-", i), bytes.NewReader(data("mine", 300<<10))).ok(t)
		storeFrames(t, s.b, "namespace=other", frames(fmt.Sprint("between-", i), []byte("x"))).ok(t) // lies between a's
	}
	before := reads(t, s.a)
	s.busy(t)
	post(t, s.b, "/v1/batch/remove", `{"namespace":"other","keys":["between-0","between-2","between-5"]}`, nil).ok(t)
	after := reads(t, s.a)
	if diff := cmp.Diff(before, after, cmp.AllowUnexported(answer{})); diff != "" {
		t.Errorf("what b did shows in a's answers:\n%s", diff)
	}

	var tags []string
	for _, a := range after {
		if tag := a.header.Get("ETag"); tag != "" {
			tags = append(tags, tag)
		}
	}
	slices.Sort(tags)
	if tags = slices.Compact(tags); len(tags) != 10 {
		t.Fatalf("%d ETags of ten objects", len(tags))
	}
	for i := 1; i < len(tags); i++ {
		if len(tags[i]) != 34 || tags[i][:9] == tags[i-1][:9] {
			t.Errorf("ETags %s and %s have something in common", tags[i-1], tags[i])
		}
	}
}

// eventsBeside are the lines that tenant a is told of what happens, as they are but for
// where their numbers start, while others do what they like: a stream, one that goes on
// where that ended, and one that comes back late.
func eventsBeside(t *testing.T, others func(c *http.Client)) (out []string) {
	synctest.Test(t, func(t *testing.T) {
		r := newAuthRig(t, func(o *rigOptions) { o.pace = testPace })
		l := newPipe()
		r.serve(l, r.srv.DataHandler(Unix))
		c := dialing(t, l.dial)
		a := as(c, tokenA)
		base, last := uint64(0), uint64(0)
		take := func(s *eventStream, n int) {
			for range n {
				line, err := s.in.ReadString('\n')
				must(t, err)
				var ev api.Event
				must(t, json.Unmarshal([]byte(line), &ev))
				if ev.Event == api.EventSynced && (ev.Seq < base || ev.Seq > base+10) {
					base = ev.Seq
					out = append(out, "numbers start anew")
				}
				if last = ev.Seq; last > 0 {
					line = strings.Replace(line, fmt.Sprintf(`"seq":%d,`, last), fmt.Sprintf(`"seq":%d,`, last-base), 1)
				}
				out = append(out, line)
			}
		}
		others(c)
		do(t, a, "PUT", "/v1/kv/default/mine", strings.NewReader("x")).ok(t)
		s := openEvents(t, a, "")
		take(s, 2)
		for i := range 40 { // idle after 15, and after 35
			time.Sleep(time.Second)
			if others(c); i == 19 {
				do(t, a, "PUT", "/v1/kv/default/k", strings.NewReader("x")).ok(t)
			}
			if i == 14 || i == 19 || i == 34 {
				take(s, 1)
			}
		}
		s.close()
		time.Sleep(time.Second)
		others(c)
		do(t, a, "DELETE", "/v1/kv/default/k", nil).ok(t)
		s = openEvents(t, a, fmt.Sprint("follow=false&since=", last))
		take(s, 2)
		s.ends()
		for range 70 {
			time.Sleep(time.Second)
			others(c)
		}
		s = openEvents(t, a, fmt.Sprint("follow=false&since=", last))
		take(s, 2)
		s.ends()
	})
	return out
}

// Events of others, how many there are and who listens to them, change no byte of what
// tenant a is told of its own.
func TestOthersEventsDoNotShow(t *testing.T) {
	alone := eventsBeside(t, func(*http.Client) {})
	n := 0
	var theirs *eventStream
	beside := eventsBeside(t, func(c *http.Client) {
		if n++; n == 1 {
			theirs = openEvents(t, as(c, tokenAdm), "") // all the time, so events are kept
		}
		do(t, as(c, tokenB), "PUT", fmt.Sprint("/v1/kv/other/", n), strings.NewReader("x")).ok(t)
		openEvents(t, as(c, tokenB), "follow=false").close()
		if n == 112 {
			theirs.close()
		}
	})
	if n != 112 || len(alone) != 11 {
		t.Fatalf("others were busy %d times; lines: %q", n, alone)
	}
	if d := cmp.Diff(alone, beside); d != "" {
		t.Errorf("alone (-) and beside others (+):\n%s", d)
	}
}

// Where an entry lies and which it is of all there ever were is for administrators.
func TestPlacesAreForAdministrators(t *testing.T) {
	s := newTenants(t, func(r *rig) *http.Client { c, _ := r.tcp(); return c })
	explain := func(c *http.Client) map[string]any {
		t.Helper()
		return decode[map[string]any](t, do(t, c, "GET", "/v1/explain/other/"+tenantKey, nil))
	}
	theirs, all := explain(s.b), explain(as(s.rig.unix(), tokenAdm))
	for _, field := range []string{"slab", "slot", "generation"} {
		if theirs[field] != nil || all[field] == nil {
			t.Errorf("%s: a tenant sees %v, an administrator %v", field, theirs[field], all[field])
		}
		delete(all, field)
	}
	if diff := cmp.Diff(all, theirs); diff != "" {
		t.Errorf("besides, an administrator (-) and a tenant (+) see:\n%s", diff)
	}
	if socket := explain(s.rig.unix()); socket["generation"] == nil {
		t.Errorf("on the socket: %v", socket)
	}
}

// A cursor is good for the namespace it was made for, and nothing else is one.
func TestCursors(t *testing.T) {
	r := newRig(t)
	c := r.unix()
	mustStore(t, c, 10, "a", "b", "c")
	var page api.ListResponse
	must(t, json.Unmarshal(do(t, c, "GET", "/v1/kv/default?limit=2", nil).ok(t).body, &page))
	last := decode[api.ListResponse](t, do(t, c, "GET", "/v1/kv/default?limit=2&cursor="+page.Cursor, nil))
	if len(page.Entries) != 2 || len(last.Entries) != 1 || last.Cursor != "" {
		t.Errorf("got %+v and then %+v", page, last)
	}
	flipped := []byte(page.Cursor)
	flipped[0] ^= 1
	for _, cursor := range []string{"0:1", "x", string(flipped), page.Cursor[1:], page.Cursor + "00", strings.Repeat("0", 32)} {
		do(t, c, "GET", "/v1/kv/default?cursor="+cursor, nil).want(t, 400, "invalid_field", "cursor")
	}
	do(t, c, "GET", "/v1/kv/other?cursor="+page.Cursor, nil).want(t, 400, "invalid_field", "cursor")
}
