// SPDX-License-Identifier: Apache-2.0

package api

import "time"

// Explanation answers GET /v1/explain/{namespace}/{key}: what became of a key,
// as far as this process remembers.
type Explanation struct {
	Key       string    `json:"key"`
	Status    Status    `json:"status"`      // what a lookup answers
	Reason    string    `json:"reason"`      // stored, never_stored, evicted, expired, removed, corrupt, unavailable, storing; unknown: what left that long ago is forgotten
	Detail    string    `json:"detail"`      // a sentence
	At        time.Time `json:"at,omitzero"` // when it came to be so, if that is known
	Bytes     int64     `json:"bytes"`       // payload length
	SlotBytes int64     `json:"slot_bytes"`
	StoredAt  time.Time `json:"stored_at,omitzero"`
	ExpiresAt time.Time `json:"expires_at,omitzero"` // absent: never
	Pinned    bool      `json:"pinned"`

	// For administrators only: they say what others store, and where.

	Slab string  `json:"slab,omitempty"`
	Slot *uint32 `json:"slot,omitempty"` // the head slot, within its slab
	// Generation tells this entry from any other that there ever was.
	Generation uint64 `json:"generation,omitempty"`
}
