// SPDX-License-Identifier: Apache-2.0

package store

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestResultsInStatus: every key that was answered counts once, under its op and
// its status.
func TestResultsInStatus(t *testing.T) {
	r := newRig(t)
	r.mustStore(4096, "a", "b")
	r.lookup("a", "b", "none")
	r.lookup("none")
	r.load(1, "a", "none")
	r.remove(false, "a", "a", "none")
	got := r.s.Status().Results
	want := map[string]map[string]uint64{
		"store":  {"ok": 2},
		"lookup": {"ok": 2, "missing": 2},
		"load":   {"ok": 1, "missing": 1},
		"remove": {"ok": 1, "duplicate": 1, "missing": 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
