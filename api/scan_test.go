// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"testing"
)

// plain must stop at every byte that matters, wherever it stands in a word.
func TestPlain(t *testing.T) {
	for c := range 256 {
		for at := range 17 {
			b := bytes.Repeat([]byte{'a'}, 20)
			b[at] = byte(c)
			want := len(b)
			if c < 0x20 || c >= 0x80 || c == '"' || c == '\\' {
				want = at
			}
			if got := plain(b); got != want {
				t.Errorf("byte %#x at %d: got %d, want %d", c, at, got, want)
			}
		}
	}
	if got := plain(nil); got != 0 {
		t.Errorf("nothing: got %d", got)
	}
}
