// SPDX-License-Identifier: Apache-2.0

package scripts

import (
	"testing"

	"github.com/rawblockd/rawblockd/ioengine"
)

// exceptions are what the document has and no script can show, and why.
func exceptions() map[string]string {
	const (
		buffers  = "for client buffers, which this release does not have"
		segments = "for staging segments, which this release does not have"
		evicts   = "this release does not evict"
		internal = "a fault of the program: a script that met it would have found a bug"
		history  = "takes more than 65,536 changes; the tests of the packages store and server show it"
		start    = "the rows of a script's slab are read too fast to be seen; the tests of package server show it"
	)
	all := map[string]string{
		"word short_buffer":                       buffers,
		"word buffer_error":                       buffers,
		"Extents.id":                              segments,
		"Extents.offsets":                         segments,
		"Extents.offsets[].len":                   segments,
		"Extents.offsets[].offset":                segments,
		"acquireLease 200":                        segments,
		"acquireLease 200 gives application/json": segments,
		"NotStaged.code=deadline":                 segments,
		"Event.reason=evicted":                    evicts,
		"Explanation.reason=evicted":              evicts,
		"EngineStats.unregistered":                "no limit of locked memory binds root; the tests of the command line show it",
		"ProblemCode=internal":                    internal,
		"ServerError.code=internal":               internal,
		"Event.event=lost":                        history,
		"Explanation.reason=unknown":              history,
		"Ready.done":                              start,
		"Ready.total":                             start,
		"Ready.phase=stopping":                    "the listeners are closed by then; the tests of package server show it",
		"RequestsResponse.requests[].stage=lock":  "takes microseconds; the tests of package store show it",
		"TouchResult.status=busy":                 "the key must be stored anew between two steps of a touch, four times",
	}
	if err := ioengine.ProbeUring(1); err != nil {
		all["EngineStats.name=uring"] = err.Error()
	}
	return all
}

// judge fails for what the document has and no script showed, and for exceptions
// that are none any more.
func (s *suite) judge(t *testing.T) {
	if why := faults(); why != "" {
		t.Skipf("the scripts that break devices and file systems did not run: %s", why)
	}
	except := exceptions()
	for _, what := range s.coverage.Missing() {
		if except[what] == "" {
			t.Errorf("the document has it, and no script shows it: %s", what)
		}
		delete(except, what)
	}
	for what := range except {
		t.Errorf("a script shows it, or the document does not have it: take %q off the exceptions", what)
	}
}
