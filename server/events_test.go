// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/store"
)

// eventStream reads a stream of events. Where their numbers start is random: base is the
// one of synced after the first snapshot.
type eventStream struct {
	t    *testing.T
	resp *http.Response
	in   *bufio.Reader
	base uint64
}

func openEvents(t *testing.T, c *http.Client, query string) *eventStream {
	t.Helper()
	resp, err := c.Get("http://localhost/v1/events?" + query)
	must(t, err)
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != api.MediaNDJSON || resp.Header.Get(api.HeaderInstance) != testInstance {
		t.Fatalf("%s: got %d %v", query, resp.StatusCode, resp.Header)
	}
	return newEventStream(t, resp)
}

func newEventStream(t *testing.T, resp *http.Response) *eventStream {
	return &eventStream{t: t, resp: resp, in: bufio.NewReader(resp.Body)}
}

func (s *eventStream) close() { _ = s.resp.Body.Close() }

func (s *eventStream) next() api.Event {
	s.t.Helper()
	line, err := s.in.ReadBytes('\n')
	must(s.t, err)
	var ev api.Event
	must(s.t, json.Unmarshal(line, &ev))
	if ev.At.IsZero() {
		s.t.Errorf("no time: %s", line)
	}
	return ev
}

// want fails unless the next events are these, in the words of word.
func (s *eventStream) want(words ...string) (last api.Event) {
	s.t.Helper()
	var got []string
	for range words {
		last = s.next()
		got = append(got, s.word(last))
	}
	if d := cmp.Diff(words, got); d != "" {
		s.t.Errorf("events: %s", d)
	}
	return last
}

// ends fails unless the stream has come to its proper end.
func (s *eventStream) ends() {
	s.t.Helper()
	// Not all of it: a stream that goes on says that it is idle, for ever.
	if rest, err := io.ReadAll(io.LimitReader(s.in, 1)); err != nil || len(rest) > 0 {
		s.t.Errorf("got %q and %v, want the end", rest, err)
	}
	s.close()
}

// word is an event but for its time, with its number counted from base.
func (s *eventStream) word(ev api.Event) string {
	if s.base == 0 && ev.Event == api.EventSynced {
		s.base = ev.Seq
	}
	parts := []string{"0", ev.Event}
	if ev.Seq > 0 {
		parts[0] = fmt.Sprintf("%+d", int64(ev.Seq-s.base))
	}
	if ev.Namespace != "" {
		parts = append(parts, ev.Namespace+"/"+ev.Key, fmt.Sprint(ev.Bytes))
	}
	if ev.Reason != "" {
		parts = append(parts, ev.Reason)
	}
	return strings.Join(parts, " ")
}

func TestEvents(t *testing.T) {
	r := newRig(t)
	c := r.unix()
	mustStore(t, c, 100, "old")
	do(t, c, "PUT", "/v1/kv/other/x", strings.NewReader("xyz")).ok(t)
	all, one := openEvents(t, c, ""), openEvents(t, c, "namespace=default")
	all.want("0 snapshot default/old 100", "0 snapshot other/x 3", "+0 synced")
	one.want("0 snapshot default/old 100", "+0 synced")
	if all.base == one.base || all.base < 1 || all.base > 1<<52 {
		t.Errorf("numbers start at %d and %d", all.base, one.base)
	}

	const odd = "a/b <é>\u2028"
	do(t, c, "PUT", api.ObjectPath("default", odd), strings.NewReader("x")).ok(t)
	do(t, c, "PUT", "/v1/kv/other/y", strings.NewReader("xy")).ok(t)
	do(t, c, "PUT", "/v1/kv/default/old?overwrite=1", strings.NewReader("x")).ok(t)
	pinned(t, c, "60000", "old")
	do(t, c, "DELETE", "/v1/kv/default/old?force=1", nil).ok(t)
	do(t, c, "DELETE", "/v1/kv/other/x", nil).ok(t)
	post(t, c, "/v1/kv/default/clear", `{"confirm":"default"}`, nil).ok(t)
	all.want("+1 stored default/"+odd+" 1", "+2 stored other/y 2",
		"+3 removed default/old 100 replaced", "+4 stored default/old 1", "+5 removed default/old 1 forced",
		"+6 removed other/x 3 removed", "+7 removed default/"+odd+" 1 cleared")
	one.want("+1 stored default/"+odd+" 1",
		"+2 removed default/old 100 replaced", "+3 stored default/old 1", "+4 removed default/old 1 forced",
		"+5 removed default/"+odd+" 1 cleared")

	// A reader goes on where it was; what is not known any more, or was another
	// instance's or another view's, begins anew.
	at := func(s *eventStream, n int) string { return fmt.Sprint("since=", s.base+uint64(n)) }
	tail := []string{"+6 removed other/x 3 removed", "+7 removed default/" + odd + " 1 cleared", "+7 synced"}
	anew := []string{"0 snapshot other/y 2", "+7 synced"}
	for _, tt := range []struct {
		of    *eventStream
		query string
		want  []string
	}{
		{all, at(all, 5), tail},
		{all, at(all, 5) + "&instance=" + testInstance, tail},
		{all, at(all, 7), tail[2:]},
		{all, at(all, 8), anew},
		{all, at(all, -1), anew},
		{all, at(one, 4), anew},
		{all, "since=0", anew},
		{all, at(all, 5) + "&instance=before", anew},
		{all, "since=&instance=&namespace=", anew},
		{one, at(one, 4) + "&namespace=default", []string{"+5 removed default/" + odd + " 1 cleared", "+5 synced"}},
		{one, at(one, 4) + "&namespace=default&instance=before", []string{"+5 synced"}},
		{one, at(all, 4) + "&namespace=default", []string{"+5 synced"}},
	} {
		for _, follow := range []string{"&follow=false", "&follow=0"} {
			s := openEvents(t, c, tt.query+follow)
			s.base = tt.of.base
			s.want(tt.want...)
			s.ends()
		}
		for _, follow := range []string{"", "&follow=", "&follow=true"} {
			s := openEvents(t, c, tt.query+follow)
			s.base = tt.of.base
			s.want(tt.want...)
			s.close()
		}
	}
	do(t, c, "PUT", "/v1/kv/other/last", strings.NewReader("x")).ok(t)
	all.want("+8 stored other/last 1")
	all.close()
	one.close()
}

func TestEventsRefusals(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.requests = 4 })
	c := r.unix()
	for query, field := range map[string]string{
		"since=-1": "since", "since=x": "since", "since=1.5": "since", "since=9223372036854775808": "since", "follow=maybe": "follow",
		"namespace=%ff": "namespace", "instance=%ff": "instance", "namespace=default&namespace=other": "namespace", "follow=1&follow=0": "follow",
	} {
		do(t, c, "GET", "/v1/events?"+query, nil).want(t, 400, "invalid_field", field)
	}
	do(t, c, "GET", "/v1/events?deadline_ms=1000", nil).want(t, 400, "unknown_field", "deadline_ms")
	do(t, c, "GET", "/v1/events?namespace=nowhere", nil).want(t, 404, "unknown_namespace", "namespace")
	do(t, c, "POST", "/v1/events", nil).want(t, 405, "method_not_allowed", "")
	a, b := openEvents(t, c, ""), openEvents(t, c, "")
	a.want("+0 synced")
	b.want("+0 synced")
	over := do(t, c, "GET", "/v1/events", nil)
	over.want(t, 429, "overloaded", "")
	if over.header.Get("Retry-After") != "1" {
		t.Errorf("got %v", over.header)
	}
	do(t, c, "GET", "/v1/kv/default", nil).ok(t) // streams take no place of other requests
	a.close()
	b.close()
}

// A stream says something every 15 s, has no deadline, and says where to go on.
func TestEventsIdle(t *testing.T) {
	paced(t, time.Second, func(_ *rig, dial func() net.Conn) {
		c := dialing(t, dial)
		s := openEvents(t, c, "namespace=default")
		defer s.close()
		began := time.Now()
		s.want("+0 synced")
		for i := range 4 {
			if i == 2 {
				do(t, c, "PUT", "/v1/kv/other/x", strings.NewReader("x")).ok(t)
			}
			ev := s.want("+0 idle")
			if took := time.Since(began); took != time.Duration(i+1)*idleEvery || !ev.At.Equal(time.Now()) {
				t.Errorf("idle after %v, at %v", took, ev.At)
			}
		}
		time.Sleep(7 * time.Second)
		do(t, c, "PUT", "/v1/kv/default/k", strings.NewReader("x")).ok(t)
		s.want("+1 stored default/k 1")
		began = time.Now()
		if s.want("+1 idle"); time.Since(began) != idleEvery {
			t.Errorf("idle %v after the last event", time.Since(began))
		}
	})
}

// What a client may not know of does not keep it from hearing that nothing
// happened, nor show in any line.
func TestEventsOfTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newAuthRig(t, func(o *rigOptions) { o.pace = testPace })
		l := newPipe()
		r.serve(l, r.srv.DataHandler(Unix))
		c := dialing(t, l.dial)
		do(t, c, "PUT", "/v1/kv/other/before", strings.NewReader("x")).ok(t)
		do(t, c, "PUT", "/v1/kv/default/mine", strings.NewReader("x")).ok(t)
		a, adm := openEvents(t, as(c, tokenA), ""), openEvents(t, as(c, tokenAdm), "")
		a.want("0 snapshot default/mine 1", "+0 synced")
		adm.want("0 snapshot other/before 1", "0 snapshot default/mine 1", "+0 synced")
		began := time.Now()
		for i := range 20 { // one a second, of another tenant
			time.Sleep(time.Second)
			do(t, c, "PUT", fmt.Sprint("/v1/kv/other/", i), strings.NewReader("x")).ok(t)
		}
		if ev := a.want("+0 idle"); ev.At.Sub(began) != idleEvery {
			t.Errorf("idle after %v", ev.At.Sub(began))
		}
		do(t, c, "PUT", "/v1/kv/default/last", strings.NewReader("x")).ok(t)
		a.want("+1 stored default/last 1")
		do(t, as(c, tokenA), "GET", "/v1/events?namespace=other", nil).want(t, 404, "unknown_namespace", "namespace")
		a.close()
		adm.close()
	})
}

// A stop ends streams at once and properly: idle ones long after their last
// write, and those whose client takes nothing.
func TestEventsEndWithTheDaemon(t *testing.T) {
	log := &logLines{}
	paced(t, time.Hour, func(r *rig, dial func() net.Conn) {
		c := dialing(t, dial)
		r.srv.SetSlow(time.Second)
		idle := openEvents(t, c, "")
		idle.want("+0 synced")
		time.Sleep(14 * time.Second) // a write has 10, so its deadline has passed
		stuck := dial()
		defer stuck.Close()
		must(t, second(io.WriteString(stuck, "GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n")))
		synctest.Wait()
		began := time.Now()
		r.srv.SetStore(nil)
		idle.ends()
		if took := time.Since(began); took != 0 {
			t.Errorf("the idle stream ended after %v", took)
		}
		do(t, c, "GET", "/v1/events", nil).want(t, 503, "not_ready", "")
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		must(t, r.https[0].Shutdown(ctx))
		if took := time.Since(began); took > 2*streamEnd { // Shutdown looks every half second
			t.Errorf("the stop took %v, want little more than %v", took, streamEnd)
		}
		if got := log.String(); strings.Contains(got, "slow request") {
			t.Errorf("a stream is no slow request: %s", got)
		}
	}, log.take)
}

// A client that takes nothing is cut off like any other, and holds nothing up
// meanwhile: stores go on, and their memory is free.
func TestEventsSlowReader(t *testing.T) {
	log := &logLines{}
	paced(t, time.Hour, func(r *rig, dial func() net.Conn) {
		c := dialing(t, dial)
		slow := dial()
		defer slow.Close()
		must(t, second(io.WriteString(slow, "GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n")))
		head := make([]byte, 16)
		must(t, second(io.ReadFull(slow, head)))
		mustStore(t, c, 100_000, "a", "b")
		if n := r.arena.InUse(); n != 0 {
			t.Errorf("%d bytes of memory are held", n)
		}
		time.Sleep(12 * time.Second)
		synctest.Wait()
		log.want(t, `msg="client cut off: it took its answer too slowly" method=GET route=/v1/events`, "after=1")
		if n := len(r.srv.requests.oldest()); n != 0 {
			t.Errorf("%d requests are under way", n)
		}
	}, log.take)
}

// A reader that falls behind by more than is kept is told so, and then the
// stream ends.
func TestEventsLost(t *testing.T) {
	const keys, rounds = 4096, 18 // a store and a remove each: twice what is kept
	paced(t, time.Hour, func(r *rig, dial func() net.Conn) {
		slow := dial()
		defer slow.Close()
		must(t, second(io.WriteString(slow, "GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n")))
		in := bufio.NewReader(slow)
		resp, err := http.ReadResponse(in, nil)
		must(t, err)
		s := newEventStream(t, resp)
		s.want("+0 synced")
		batch := make([]string, keys)
		for i := range batch {
			batch[i] = fmt.Sprint(i)
		}
		for range rounds {
			storeAll(t, r, batch)
			res, err := r.store.Remove(context.Background(), "default", batch, false)
			if err != nil || res.Removed != keys {
				t.Fatalf("removed %d, %v", res.Removed, err)
			}
		}
		for n := 1; ; n++ {
			ev := s.next()
			if ev.Event == api.EventLost {
				if n == 1 || n > keys*rounds {
					t.Errorf("lost after %d events", n-1)
				}
				break
			}
			if ev.Seq != s.base+uint64(n) {
				t.Fatalf("event %d has number %d", n, ev.Seq)
			}
		}
		s.ends()
	}, func(o *rigOptions) { o.size = 2 << 30 })
}

// storeAll stores keys of one byte each, past HTTP.
func storeAll(t *testing.T, r *rig, keys []string) {
	t.Helper()
	b, err := r.store.BeginStore(context.Background(), "default", store.StoreOptions{})
	must(t, err)
	for _, k := range keys {
		buf, err := r.store.Buffer(context.Background(), 1)
		must(t, err)
		b.Add(store.StoreItem{Key: k, Len: 1, Buf: buf})
	}
	results, err := b.Commit()
	must(t, err)
	for _, k := range results {
		if k.Status != store.OK {
			t.Fatalf("stored %+v", k)
		}
	}
}

// While recovery runs there are no events yet.
func TestEventsNotReady(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.notReady = true })
	do(t, r.unix(), "GET", "/v1/events", nil).want(t, 503, "not_ready", "")
}

// A client that leaves ends its stream.
func TestEventsClientGone(t *testing.T) {
	r := newRig(t)
	c := r.unix()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", "http://localhost/v1/events", nil)
	must(t, err)
	resp, err := c.Do(req)
	must(t, err)
	s := newEventStream(t, resp)
	s.want("+0 synced")
	cancel()
	if _, err := s.in.ReadByte(); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	s.close()
	for len(r.srv.requests.oldest()) > 0 { // the end of the test bounds it
		time.Sleep(time.Millisecond)
	}
}
