// SPDX-License-Identifier: Apache-2.0

package store

// Reason says why a key is as it is, or why an entry left the index.
type Reason uint8

// The reasons. String gives the word that the HTTP API uses.
const (
	ReasonStored      Reason = iota // it is there
	ReasonNeverStored               // nothing is known of it, and nothing was forgotten
	ReasonEvicted                   // it made room for others
	ReasonExpired                   // its time to live was over
	ReasonRemoved                   // a request removed it
	ReasonForced                    // a request removed it by force
	ReasonCleared                   // its namespace was cleared
	ReasonReplaced                  // a store of the same key took its place
	ReasonCorrupt                   // its bytes did not match their checksum
	ReasonIOError                   // the device could not read it
	ReasonUnavailable               // its slab or the metadata store cannot serve it
	ReasonStoring                   // a batch is storing it now
	ReasonUnknown                   // not there; why was forgotten
	reasons                         // how many there are
)

var reasonWords = [reasons]string{
	"stored", "never_stored", "evicted", "expired", "removed", "forced", "cleared", "replaced", "corrupt", "io_error",
	"unavailable", "storing", "unknown",
}

// String returns the API's word, such as "never_stored".
func (r Reason) String() string {
	if r < reasons {
		return reasonWords[r]
	}
	return "unknown"
}

// miss is the reason as explanations and the count of misses know it: they tell
// apart what a caller would do something else about.
func (r Reason) miss() Reason {
	switch r {
	case ReasonForced, ReasonCleared, ReasonReplaced:
		return ReasonRemoved
	case ReasonIOError:
		return ReasonCorrupt
	}
	return r
}

// departure is an entry that left the index, with what is still asked about it
// when its slots are another's. It goes with the group that makes it durable.
type departure struct {
	head   id
	length uint32
	why    Reason
	digest digest
	key    string // "": its request knew only the slot; the row has the key
}

// dropLocked takes an entry out of the index for deletion in g and collects its
// slots. Key may be empty.
// +checklocks:s.mu
func (s *Store) dropLocked(g *group, slots slotLists, h id, key string, why Reason) {
	g.left = append(g.left, departure{h, s.x.length[h], why, s.x.digest[h], key})
	g.deletes = append(g.deletes, h)
	s.unlinkLocked(h, slots)
}
