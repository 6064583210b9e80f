// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"encoding/binary"
	"fmt"
)

// The first bytes of every key; see the package comment.
const (
	prefixRow        = "s/"
	prefixQuarantine = "q/"
	prefixMount      = "m/"
	prefixSlab       = "d/"
	prefixNamespace  = "n/"
	keyGeneration    = "g"
	keyVersion       = "v"
)

const (
	incLen    = len(Incarnation{})
	mountLen  = 2 + incLen
	slotKeyLn = mountLen + 4
)

// Incarnation is the random identity that init gives a slab.
type Incarnation [16]byte

// String returns the UUID form, as labels and logs show it.
func (i Incarnation) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", i[0:4], i[4:6], i[6:8], i[8:10], i[10:])
}

// slotKey is a row's or a quarantined slot's key; an array, so that building
// one allocates nothing.
type slotKey [slotKeyLn]byte

func makeSlotKey(prefix string, inc Incarnation, slot uint32) (k slotKey) {
	copy(k[:2], prefix)
	copy(k[2:], inc[:])
	binary.BigEndian.PutUint32(k[mountLen:], slot)
	return k
}

func mountKey(inc Incarnation) []byte {
	return append([]byte(prefixMount), inc[:]...)
}

// slotBounds covers the slots [from, to) of a slab; to == 0 is its end.
func slotBounds(prefix string, inc Incarnation, from, to uint32) (lower, upper []byte) {
	lo := makeSlotKey(prefix, inc, from)
	if to == 0 {
		// The end lies behind the highest slot, and before the next
		// incarnation whatever follows the four bytes.
		return lo[:], successor(lo[:mountLen])
	}
	hi := makeSlotKey(prefix, inc, to)
	return lo[:], hi[:]
}

// successor returns the first key that does not start with prefix.
func successor(prefix []byte) []byte {
	next := append([]byte(nil), prefix...)
	for i := len(next) - 1; i >= 0; i-- {
		next[i]++
		if next[i] != 0 {
			return next[:i+1]
		}
	}
	return nil // unreachable: every prefix starts with a letter
}

// slotOf takes the slot number out of a row's or quarantine's key.
func slotOf(key []byte) (uint32, bool) {
	if len(key) != slotKeyLn {
		return 0, false
	}
	return binary.BigEndian.Uint32(key[mountLen:]), true
}
