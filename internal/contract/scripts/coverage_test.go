// SPDX-License-Identifier: Apache-2.0

package scripts

import (
	"testing"
)

// exceptions are what the document has and no script can show, and why.
func exceptions() map[string]string {
	return map[string]string{
		"code internal":     "a fault of the program: a script that met it would have found a bug",
		"word short_buffer": "for client buffers, which this release does not have",
		"word buffer_error": "for client buffers, which this release does not have",
		"acquireLease 200":  "for staging segments, which this release does not have",

		"batchTouch word busy": "the key must be stored anew between two steps of a touch, four times",
	}
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
