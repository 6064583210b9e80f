// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/rawblockd/rawblockd/api"
)

// TestExplain: a key that is there, one that was removed, one that never was.
func TestExplain(t *testing.T) {
	_, addr := serveIn(t, shortDir(t))
	at := func(args ...string) []string { return append(args, "--addr", addr) }
	const odd = "a/b %2F ?é"
	for _, key := range []string{odd, "gone"} {
		if r := commandWith(t.Context(), strings.Repeat("x", 3<<20), at("put", key, "--ttl", "1h")...); r.code != exitOK {
			t.Fatalf("put: %+v", r)
		}
	}
	ok(t, at("rm", "gone")...)
	ok(t, at("pin", odd)...)

	got := ok(t, at("explain", odd)...)
	want := `^key +a/b %2F \?é\nstatus +ok\nreason +stored\ndetail +.+\n(at .+\n)?slab +dev, slot [\d,]+\nsize +3,145,728 bytes in 4.0 MiB of slots\ngeneration +\d+\nstored +\d{4}-.+\nexpires +\d{4}-.+\npinned +by a lease\n$`
	if !regexp.MustCompile(want).MatchString(got) {
		t.Errorf("stored: got\n%s", got)
	}
	got = ok(t, at("explain", "gone")...)
	if !regexp.MustCompile(`^key +gone\nstatus +missing\nreason +removed\ndetail +.+\nat +\d{4}-.+\n$`).MatchString(got) {
		t.Errorf("removed: got\n%s", got)
	}
	var x api.Explanation
	asJSON(t, &x, at("explain", "never", "--json")...)
	if x.Key != "never" || x.Status != api.StatusMissing || x.Reason != "never_stored" || x.Detail == "" || x.Slot != nil {
		t.Errorf("never stored: got %+v", x)
	}
	asJSON(t, &x, at("explain", odd, "--json")...)
	if x.Status != api.StatusOK || x.Slot == nil || x.SlotBytes != 4<<20 || !x.Pinned {
		t.Errorf("--json: got %+v", x)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{at("explain", "k", "-n", "nobody"), "unknown namespace"},
		{at("explain", "a\x01b"), "a key is 1 to 1024 bytes of valid UTF-8 without control characters"},
	} {
		wantLine(t, command(t, tt.args...), tt.args, exitFailed, tt.want)
	}
}
