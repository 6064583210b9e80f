// SPDX-License-Identifier: Apache-2.0

package server

import (
	"io"
	"net/http"
	"testing"
)

// Streams that somebody opens and forgets leave some for everybody else, and for
// those that end by themselves all places that there are.
func TestForgottenStreams(t *testing.T) {
	r := newAuthRig(t, func(o *rigOptions) { o.requests = 8 })
	unix := r.unix()
	a, b := as(unix, tokenA), as(unix, tokenB)
	var open []*eventStream
	defer func() {
		for _, s := range open {
			s.close()
		}
	}()
	fill := func(client *http.Client) int {
		for n := 0; ; n++ {
			if over := do(t, client, "GET", "/v1/events?follow=false", nil); over.code != 200 {
				t.Fatalf("one that ends by itself: got %d %s", over.code, over.body)
			}
			s, refused := tryEvents(t, client)
			if s == nil {
				refused.want(t, 429, "overloaded", "")
				return n
			}
			open = append(open, s)
		}
	}
	if n := fill(a); n != 4 {
		t.Errorf("the first has %d streams of 8", n)
	}
	if n := fill(b); n != 2 {
		t.Errorf("the second has %d of 4 that are left", n)
	}
	for _, s := range open[:3] {
		s.close()
	}
	open = open[3:]
	for r.openStreams() > 3 { // the end of the test bounds it
		do(t, b, "GET", "/v1/info", nil).ok(t)
	}
	s, refused := tryEvents(t, a)
	if s == nil {
		t.Fatalf("its own closed, it gets no other: %s", refused.body)
	}
	open = append(open, s)
}

// tryEvents opens a stream, unless that is refused.
func tryEvents(t *testing.T, c *http.Client) (*eventStream, answer) {
	t.Helper()
	resp, err := c.Get("http://localhost/v1/events")
	must(t, err)
	if resp.StatusCode == http.StatusOK {
		return newEventStream(t, resp), answer{}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	return nil, answer{resp.StatusCode, resp.Header, body, resp.Close}
}

// openStreams is how many streams are open.
func (r *rig) openStreams() int {
	r.srv.streams.mu.Lock()
	defer r.srv.streams.mu.Unlock()
	return len(r.srv.streams.open)
}

// Streams that end take places as other requests do, and give them back.
func TestFiniteStreamsCount(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.requests = 2 })
	c := r.unix()
	for range 10 {
		do(t, c, "GET", "/v1/events?follow=false", nil).ok(t)
	}
	r.srv.places.take(2)
	do(t, c, "GET", "/v1/events?follow=false", nil).want(t, 429, "overloaded", "")
	s := openEvents(t, c, "")
	s.want("+0 synced")
	s.close()
	r.srv.places.give(2)
	do(t, c, "GET", "/v1/events?follow=false", nil).ok(t)
	if n := r.srv.places.used.Load(); n != 0 {
		t.Errorf("%d places are still taken", n)
	}
}
