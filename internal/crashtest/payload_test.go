// SPDX-License-Identifier: Apache-2.0

package crashtest

import "testing"

// A payload of one byte is told from the beginning of any other version, else the judge
// would call right bytes wrong.
func TestShortPayloadsAreTold(t *testing.T) {
	for _, key := range []string{"key-0", "key-4kkk"} {
		first := map[byte]int{}
		for v := range 256 {
			var b [1]byte
			seed := payloadSeed(keyName{"default", key}, v)
			fill(b[:], seed, 0)
			if other, ok := first[b[0]]; ok {
				t.Fatalf("%s: versions %d and %d begin alike", key, other, v)
			}
			first[b[0]] = v
			if at, ok := same(b[:], seed, 0); !ok {
				t.Errorf("%s: version %d is not itself at byte %d", key, v, at)
			}
		}
	}
}
