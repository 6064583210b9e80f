// SPDX-License-Identifier: Apache-2.0

package api

import "time"

// Event is one line of GET /v1/events.
//
// A reader remembers the Seq of the last line it has taken, together with the
// instance (Rawblockd-Instance of the answer), and gives both when it asks for the
// same again. Sequence numbers mean nothing to another instance, nor in a stream that
// is about other namespaces: there, a snapshot comes first.
type Event struct {
	// Seq counts the changes of what the stream is about, from a random start; that of
	// snapshot and lost is 0. It is exact in a float64.
	Seq       uint64    `json:"seq"`
	Event     string    `json:"event"`
	Namespace string    `json:"namespace,omitempty"`
	Key       string    `json:"key,omitempty"`
	Bytes     int64     `json:"bytes,omitempty"`  // payload length
	Reason    string    `json:"reason,omitempty"` // of removed
	At        time.Time `json:"at"`
}

// What an Event says.
const (
	EventStored   = "stored"
	EventRemoved  = "removed"
	EventSnapshot = "snapshot" // an entry that was there when the stream began
	EventSynced   = "synced"   // the snapshot, or what was missed, is complete; changes follow
	EventLost     = "lost"     // the reader fell behind: begin anew; the stream ends
	EventIdle     = "idle"     // nothing happened for a while
)

// Why an entry was removed.
const (
	RemovedByRequest  = "removed"
	RemovedByForce    = "forced"
	RemovedByExpiry   = "expired"
	RemovedByEviction = "evicted"
	RemovedByClear    = "cleared"
	RemovedCorrupt    = "corrupt"
	RemovedByStore    = "replaced"
	RemovedByFault    = "io_error"
)
