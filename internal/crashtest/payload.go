// SPDX-License-Identifier: Apache-2.0

package crashtest

import (
	"encoding/binary"
	"math/rand/v2"
)

// mix is the finalizer of SplitMix64: a cheap function whose every output bit
// depends on every input bit.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// hashString is FNV-1a: seeds must mean the same in every process, which
// hash/maphash does not promise.
func hashString(s string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 0x100000001b3
	}
	return mix(h)
}

// payloadSeed names the payload of one version of one key. Its lowest byte differs from
// those of 255 versions before: a payload of one byte is this version's and no other's.
func payloadSeed(name keyName, version int) uint64 {
	key := hashString(name.ns) ^ mix(hashString(name.key))
	return mix(key^uint64(version))&^0xff | (key+uint64(version))&0xff
}

// word is the i-th eight bytes of a payload; the first byte is that of the seed.
func word(seed, i uint64) uint64 {
	if i == 0 {
		return mix(seed)&^0xff | seed&0xff
	}
	return mix(seed + i)
}

// fill writes payload bytes from position pos (a multiple of 8) into dst. Each
// eight bytes differ from those of any other version and any other place.
func fill(dst []byte, seed uint64, pos int) {
	i := uint64(pos / 8)
	for len(dst) >= 8 {
		binary.LittleEndian.PutUint64(dst, word(seed, i))
		dst = dst[8:]
		i++
	}
	if len(dst) > 0 {
		var tail [8]byte
		binary.LittleEndian.PutUint64(tail[:], word(seed, i))
		copy(dst, tail[:])
	}
}

// same reports whether got holds the payload's bytes from position pos on, and
// the place of the first byte that does not.
func same(got []byte, seed uint64, pos int) (at int, ok bool) {
	i := uint64(pos / 8)
	for n := 0; n < len(got); n += 8 {
		w := word(seed, i)
		i++
		if n+8 <= len(got) && binary.LittleEndian.Uint64(got[n:]) == w {
			continue
		}
		var want [8]byte
		binary.LittleEndian.PutUint64(want[:], w)
		for k := 0; k < 8 && n+k < len(got); k++ {
			if got[n+k] != want[k] {
				return pos + n + k, false
			}
		}
	}
	return 0, true
}

// newRand is a generator for one purpose within a seed, so that a change in one
// part of the campaign does not shift the random numbers of another.
func newRand(seed uint64, purpose string, n uint64) *rand.Rand {
	return rand.New(rand.NewPCG(mix(seed^hashString(purpose)), mix(n)))
}
