// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/rawblockd/rawblockd/api"
)

// TestDrainAndResume: a drained slab serves and takes no stores.
func TestDrainAndResume(t *testing.T) {
	s, addr := serveIn(t, shortDir(t))
	at := func(args ...string) []string { return append(args, "--addr", addr) }
	put := func(key string) result { return commandWith(t.Context(), "x", at("put", key)...) }
	if r := put("a"); r.code != exitOK {
		t.Fatalf("put: %+v", r)
	}
	if got := ok(t, at("drain", "dev")...); !strings.HasPrefix(got, "dev: draining") || !strings.HasSuffix(got, " of 30 slots are free\n") {
		t.Errorf("drain: got %q", got)
	}
	if got := ok(t, at("get", "a")...); got != "x" {
		t.Errorf("get from a drained slab: got %q", got)
	}
	if r := put("b"); r.code != exitFailed {
		t.Errorf("put to a drained slab: got %+v", r)
	}
	if got := ok(t, at("status")...); !strings.Contains(got, "draining") {
		t.Errorf("status: got %s", got)
	}
	var st api.SlabStatus
	asJSON(t, &st, at("resume", "dev", "--json")...)
	if st.Name != "dev" || st.Health != "online" || st.Slots.Used != 1 {
		t.Errorf("resume --json: got %+v", st)
	}
	if r := put("b"); r.code != exitOK {
		t.Errorf("put after resume: got %+v", r)
	}
	for _, verb := range []string{"drain", "resume"} {
		args := at(verb, "nvme9")
		wantLine(t, command(t, args...), args, exitFailed, "unknown slab")
	}
	if !strings.Contains(s.log.String(), "drain") {
		t.Errorf("the log does not say who drained: %s", s.log)
	}
}
