// SPDX-License-Identifier: Apache-2.0

package api

import "time"

// Batch holds the fields every batch request has.
type Batch struct {
	Namespace string `json:"namespace"`
	Keys      Keys   `json:"keys"`
	// DeadlineMS bounds the request, in milliseconds; 0: limits.request_deadline.
	DeadlineMS int64 `json:"deadline_ms,omitempty"`
}

// In returns the namespace that the request names.
func (b Batch) In() string { return b.Namespace }

// Count returns the number of keys.
func (b Batch) Count() int { return len(b.Keys) }

// LeaseRequest asks for the hits to be pinned.
type LeaseRequest struct {
	TTLMS int64  `json:"ttl_ms,omitempty"` // 0: leases.default_ttl
	Owner string `json:"owner,omitempty"`  // a label for people; the id is the authority
}

// Lease is a set of pins.
type Lease struct {
	ID        string    `json:"id"`
	Namespace string    `json:"namespace,omitempty"`
	Owner     string    `json:"owner,omitempty"`
	TTLMS     int64     `json:"ttl_ms"`
	ExpiresAt time.Time `json:"expires_at"`
	Entries   int       `json:"entries"`
}

// KeyResult is what a lookup says about one key.
type KeyResult struct {
	Status Status `json:"status"`
	Bytes  int64  `json:"bytes"`           // stored length; 0 unless ok
	Error  string `json:"error,omitempty"` // why, in a sentence, where the status does not say it all
}

// StatusResult is what a remove or a pin says about one key.
type StatusResult struct {
	Status Status `json:"status"`
	Error  string `json:"error,omitempty"`
}

// StoreResult is what a store says about one key.
type StoreResult struct {
	Status    Status `json:"status"`
	SlotBytes int64  `json:"slot_bytes"` // what the entry takes: slots × slot size; 0 unless ok
	Error     string `json:"error,omitempty"`
}

// LookupRequest is the body of POST /v1/batch/lookup.
type LookupRequest struct {
	Batch
	Lease  *LeaseRequest `json:"lease,omitempty"`  // pins the hits in the same lock section
	Prefix bool          `json:"prefix,omitempty"` // stop at the first miss
}

// LookupResponse answers a lookup.
type LookupResponse struct {
	Results    []KeyResult `json:"results"`
	Hits       int         `json:"hits"`
	PrefixHits int         `json:"prefix_hits"` // leading run of hits
	Lease      *Lease      `json:"lease,omitempty"`
}

// LoadRequest is the body of POST /v1/batch/load. The answer is frames, one
// per key in request order.
type LoadRequest struct {
	Batch
}

// StoreQuery holds the fields that go into the query of POST
// /v1/batch/store when the body is frames, and of a PUT (without Namespace).
type StoreQuery struct {
	Namespace  string
	Overwrite  bool
	Force      bool  // with Overwrite: pinned entries too
	TTLMS      int64 // 0: the namespace's
	After      string
	Family     string
	DeadlineMS int64
}

// StoreResponse answers a store.
type StoreResponse struct {
	Results []StoreResult `json:"results"`
	OK      int           `json:"ok"` // how many results are ok
}

// RemoveRequest is the body of POST /v1/batch/remove.
type RemoveRequest struct {
	Batch
	Force bool `json:"force,omitempty"` // pinned entries too, dropping their pins
}

// RemoveResponse answers a remove.
type RemoveResponse struct {
	Results []StatusResult `json:"results"`
	Removed int            `json:"removed"`
}

// PinRequest is the body of POST /v1/batch/pin.
type PinRequest struct {
	Batch
	LeaseRequest
}

// PinResponse answers a pin. Lease is absent when nothing was pinned.
type PinResponse struct {
	Results []StatusResult `json:"results"`
	Lease   *Lease         `json:"lease,omitempty"`
}

// UnpinRequest is the body of POST /v1/batch/unpin. Keys nil means every
// entry of the lease; an empty list means none.
type UnpinRequest struct {
	Namespace  string `json:"namespace"`
	Lease      string `json:"lease"`
	Keys       Keys   `json:"keys,omitzero"`
	DeadlineMS int64  `json:"deadline_ms,omitempty"`
}

// In returns the namespace that the request names.
func (r UnpinRequest) In() string { return r.Namespace }

// Count returns the number of keys; 0 also where all of the lease are meant.
func (r UnpinRequest) Count() int { return len(r.Keys) }

// UnpinResponse answers an unpin.
type UnpinResponse struct {
	Released int `json:"released"`
	Stale    int `json:"stale"` // pins whose entry is gone; a no-op
}

// TouchRequest is the body of POST /v1/batch/touch.
type TouchRequest struct {
	Batch
	// TTLMS counts from now on; 0: the namespace's, and where that has none the
	// expiry stays as it is.
	TTLMS int64 `json:"ttl_ms,omitempty"`
}

// TouchResponse answers a touch.
type TouchResponse struct {
	Results []StatusResult `json:"results"`
	Touched int            `json:"touched"` // how many results are ok
}

// LeasesResponse answers GET /v1/leases.
type LeasesResponse struct {
	Leases []Lease `json:"leases"`
}

// PutResponse answers a PUT of one object.
type PutResponse struct {
	Status    Status `json:"status"`
	SlotBytes int64  `json:"slot_bytes"`
}

// DeleteResponse answers a DELETE of one object.
type DeleteResponse struct {
	Status Status `json:"status"`
}

// ListResponse answers GET /v1/kv/{namespace}: entries in slot order.
type ListResponse struct {
	Entries []ListEntry `json:"entries"`
	Cursor  string      `json:"cursor,omitempty"` // for the next page; absent on the last
}

// ListEntry is one entry of a listing.
type ListEntry struct {
	Key       string    `json:"key"`
	Bytes     int64     `json:"bytes"`
	StoredAt  time.Time `json:"stored_at"`
	ExpiresAt time.Time `json:"expires_at,omitzero"` // absent: never
	Pinned    bool      `json:"pinned,omitempty"`
}
