// SPDX-License-Identifier: Apache-2.0

package api

import "time"

// Event is one line of GET /v1/events.
//
// A reader remembers the Seq of the last line it has taken, together with the
// instance (Rawblockd-Instance of the answer), and gives both when it comes
// back. Sequence numbers mean nothing to another instance.
type Event struct {
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
