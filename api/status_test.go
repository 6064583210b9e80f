// SPDX-License-Identifier: Apache-2.0

package api

import "testing"

func TestStatusHTTP(t *testing.T) {
	want := map[Status]int{
		"ok": 200, "exists": 409, "missing": 404, "expired": 404, "pinned": 423, "no_space": 507, "quota": 507,
		"too_large": 413, "short_buffer": 400, "size_mismatch": 409, "invalid_key": 400, "duplicate": 409,
		"io_error": 500, "corrupt": 404, "buffer_error": 400, "deadline": 504, "busy": 503, "unavailable": 503,
	}
	if len(Statuses()) != len(want) {
		t.Fatalf("got %d statuses, want %d", len(Statuses()), len(want))
	}
	for _, s := range Statuses() {
		if !s.Valid() {
			t.Errorf("%s is not valid", s)
		}
		if s.HTTP() != want[s] {
			t.Errorf("%s: got %d, want %d", s, s.HTTP(), want[s])
		}
		if s.Meaning() == "unknown status" {
			t.Errorf("%s has no meaning", s)
		}
		if p := StatusProblem(s, ""); (p.RetryAfter > 0) != (want[s] == 503) {
			t.Errorf("%s: Retry-After %d", s, p.RetryAfter)
		}
	}
	if Status("done").Valid() || Status("").Valid() {
		t.Error("an unknown status is valid")
	}
}
