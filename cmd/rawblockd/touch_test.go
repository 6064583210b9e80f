// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/rawblockd/rawblockd/api"
)

func TestTouch(t *testing.T) {
	_, addr := serveIn(t, shortDir(t))
	at := func(args ...string) []string { return append(args, "--addr", addr) }
	for _, key := range []string{"a", "b"} {
		if r := commandWith(t.Context(), "x", at("put", key, "--ttl", "1h")...); r.code != exitOK {
			t.Fatalf("put: %+v", r)
		}
	}
	if got := ok(t, at("touch", "a", "--ttl", "48h")...); got != "1 of 1 touched\n" {
		t.Errorf("touch: got %q", got)
	}
	if got := ok(t, at("ls", "-l")...); !strings.Contains(got, time.Now().Add(48*time.Hour).Local().Format(time.DateOnly)) {
		t.Errorf("the expiry did not move: %s", got)
	}
	r := commandWith(t.Context(), "a\nnone\nb\n", at("touch", "-", "--json")...)
	if r.code != exitFailed || !strings.Contains(r.out, `"touched": 2`) || r.errors != "rawblockd: touch: 1 of 3 keys failed, see their status above\n" {
		t.Errorf("touch from stdin: got %+v", r)
	}
	if r := command(t, at("touch", "none", "a")...); r.code != exitFailed || !strings.Contains(r.out, "missing  none") || !strings.Contains(r.out, "1 of 2 touched\n") {
		t.Errorf("touch of a missing key: got %+v", r)
	}
	var res api.TouchResponse
	asJSON(t, &res, at("touch", "a", "--json")...)
	if res.Touched != 1 || len(res.Results) != 1 || res.Results[0].Status != api.StatusOK {
		t.Errorf("touch --json: got %+v", res)
	}
}
