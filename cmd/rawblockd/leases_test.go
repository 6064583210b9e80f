// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/rawblockd/rawblockd/api"
)

func TestLeaseVerbsByID(t *testing.T) {
	_, addr := serveIn(t, shortDir(t))
	at := func(args ...string) []string { return append(args, "--addr", addr) }
	for _, key := range []string{"a", "b"} {
		if r := commandWith(t.Context(), "x", at("put", key)...); r.code != exitOK {
			t.Fatalf("put: %+v", r)
		}
	}
	var pin api.PinResponse
	asJSON(t, &pin, at("pin", "a", "b", "--ttl", "1m", "--owner", "me", "--json")...)
	id := pin.Lease.ID

	var l api.Lease
	asJSON(t, &l, at("leases", "show", id, "--json")...)
	if l.ID != id || l.Namespace != "default" || l.Entries != 2 || l.Owner != "me" || l.TTLMS != 60_000 {
		t.Errorf("show --json: got %+v", l)
	}
	if got := ok(t, at("leases", "show", id)...); !strings.Contains(got, "lease      "+id+"\n") || !strings.Contains(got, "entries    2\n") {
		t.Errorf("show: got %q", got)
	}
	asJSON(t, &l, at("leases", "renew", id, "--ttl", "5m", "--json")...)
	if !l.ExpiresAt.After(pin.Lease.ExpiresAt) {
		t.Errorf("renew: expires at %v, it was %v", l.ExpiresAt, pin.Lease.ExpiresAt)
	}
	for _, verb := range [][]string{{"leases"}, {"leases", "list"}} {
		got := ok(t, at(verb...)...)
		if !regexp.MustCompile(`^LEASE +NAMESPACE +ENTRIES +EXPIRES +OWNER\n` + id + ` +default +2 +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +me\n$`).MatchString(got) {
			t.Errorf("%v: got %q", verb, got)
		}
	}
	if got := ok(t, at("leases", "release", id)...); got != "2 released, 0 stale\n" {
		t.Errorf("release: got %q", got)
	}
	r := command(t, at("leases", "release", id, "--json")...)
	if r.code != exitFailed || !strings.Contains(r.out, `"released": 0`) || r.errors != "rawblockd: leases release: 1 of 1 had ended already, or never were\n" {
		t.Errorf("release again: got %+v", r)
	}
	for _, verb := range []string{"show", "renew"} {
		args := at("leases", verb, id)
		wantLine(t, command(t, args...), args, exitFailed, "unknown lease")
	}
}

// The label of a lease is whatever its owner says. It must not steer the terminal of
// who lists leases, nor look like another line of the list.
func TestLeaseOwnerCannotSteerTerminal(t *testing.T) {
	_, addr := serveIn(t, shortDir(t))
	at := func(args ...string) []string { return append(args, "--addr", addr) }
	if r := commandWith(t.Context(), "x", at("put", "a")...); r.code != exitOK {
		t.Fatalf("put: %+v", r)
	}
	var pin api.PinResponse
	asJSON(t, &pin, at("pin", "a", "--owner", "\x1b]0;owned\a\u009b2Jme\nfake\tr\u202eow é", "--json")...)
	const want = `\x1b]0;owned\a\u009b2Jme\nfake\tr\u202eow é`
	for _, args := range [][]string{{"leases"}, {"leases", "show", pin.Lease.ID}, {"__complete", "leases", "show", "--addr", addr, ""}} {
		if args[0] != "__complete" {
			args = at(args...)
		}
		if got := ok(t, args...); !strings.Contains(got, want) || strings.ContainsAny(got, "\x1b\a\u009b\u202e") {
			t.Errorf("%v: got %q, want %q in it", args, got, want)
		}
	}
}
