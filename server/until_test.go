// SPDX-License-Identifier: Apache-2.0

package server

import (
	"runtime"
	"time"
)

// until waits for what must come soon and has no event; it gives up after a minute.
// It is for real time: in a bubble of synctest, Wait is.
func (r *rig) until(what string, is func() bool) {
	r.t.Helper()
	for end := time.Now().Add(time.Minute); !is(); runtime.Gosched() {
		if time.Now().After(end) {
			r.t.Fatalf("waited a minute in vain: %s", what)
		}
	}
}
