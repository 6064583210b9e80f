// SPDX-License-Identifier: Apache-2.0

package api

import "time"

// Info answers GET /v1/info.
type Info struct {
	API            string     `json:"api"`
	Version        string     `json:"version"`
	Instance       string     `json:"instance"`
	Features       []string   `json:"features"`
	Limits         InfoLimits `json:"limits"`
	Alignments     Alignments `json:"alignments"`
	LargestPayload int64      `json:"largest_payload"`
	Namespaces     []string   `json:"namespaces"`
}

// InfoLimits are the limits a client must keep. Sizes are bytes.
type InfoLimits struct {
	BatchKeys         int   `json:"batch_keys"`
	KeyBytes          int   `json:"key_bytes"`
	Payload           int64 `json:"payload"`
	StreamBytes       int64 `json:"stream_bytes"`
	RequestDeadlineMS int64 `json:"request_deadline_ms"`
	ListLimit         int   `json:"list_limit"`
}

// Alignments are what makes a transfer free of copies. Streams need none.
type Alignments struct {
	Block int `json:"block"` // bytes; the largest of the slabs
	Piece int `json:"piece"` // bytes; the unit of checksums and of the I/O split
}

// Ready answers GET /readyz: with 200 when Ready, else with 503.
type Ready struct {
	Ready  bool   `json:"ready"`
	Phase  string `json:"phase"`
	Reason string `json:"reason,omitempty"` // why the metadata is out of service, if it is
	Done   uint64 `json:"done,omitempty"`   // rows, while recovering
	Total  uint64 `json:"total,omitempty"`
}

// Phases of a daemon. In metadata_failed it still serves what is stored and
// refuses changes, until it is started again.
const (
	PhaseRecovering     = "recovering"
	PhaseServing        = "serving"
	PhaseMetadataFailed = "metadata_failed"
	PhaseStopping       = "stopping"
)

// StatusReport answers GET /v1/status.
type StatusReport struct {
	Instance    string `json:"instance"`
	Version     string `json:"version"`
	Ready       bool   `json:"ready"`
	Entries     uint64 `json:"entries"`
	Leases      int    `json:"leases"`
	Pins        int64  `json:"pins"` // in force, over all entries
	PinnedBytes int64  `json:"pinned_bytes"`
	Queued      uint64 `json:"queued"`                // groups of changes that wait for the committer
	MetaFailed  string `json:"meta_failed,omitempty"` // why changes are refused
	// StoresRefused says why stores are refused while loads and removes go on: the
	// metadata's file system is short of space. The daemon is ready all the same.
	StoresRefused string            `json:"stores_refused,omitempty"`
	Slabs         []SlabStatus      `json:"slabs"`
	Namespaces    []NamespaceStatus `json:"namespaces"`
	// Results is how many keys were answered since the start: op (lookup, load,
	// store, remove and so on) → Status → keys.
	Results map[string]map[Status]uint64 `json:"results"`
}

// SlabsResponse answers GET /v1/slabs.
type SlabsResponse struct {
	Slabs []SlabStatus `json:"slabs"`
}

// SlabStatus is one slab.
type SlabStatus struct {
	Name        string       `json:"name"`
	Device      string       `json:"device"`
	Incarnation string       `json:"incarnation"`
	SlotSize    int64        `json:"slot_size"`
	Mount       uint64       `json:"mount"`            // how often it was mounted
	Health      string       `json:"health"`           // online, degraded, draining, read_only, offline, missing
	Reason      string       `json:"reason,omitempty"` // why not online
	Durability  string       `json:"durability"`       // sync, relaxed
	Slots       SlotCounts   `json:"slots"`
	Engine      *EngineStats `json:"engine,omitempty"`
	Scrub       *ScrubStatus `json:"scrub,omitempty"` // the last one since the start
}

// A slab's map has a byte a slot: one of these states, and SlotPinned where a
// lease protects the entry that the slot belongs to.
const (
	SlotUnknown     = 0 // before recovery has come to it
	SlotFree        = 1
	SlotReserved    = 2
	SlotUsed        = 3
	SlotDeleting    = 4
	SlotRetired     = 5
	SlotQuarantined = 6

	SlotPinned = 1 << 7 // a bit
)

// MaxSlabMap is how many slots one answer of a slab's map holds at most.
const MaxSlabMap = 1 << 20

// ScrubStatus tells of a scrub: a pass over a slab's slots that reads every entry
// and drops what is bad.
type ScrubStatus struct {
	Running bool      `json:"running"`
	Done    uint32    `json:"done"` // slots that are behind it
	Total   uint32    `json:"total"`
	Bad     int       `json:"bad"`               // entries that were bad or could not be read, and are gone
	EndedAt time.Time `json:"ended_at,omitzero"` // absent while it runs
	Stopped string    `json:"stopped,omitempty"` // why it ended before its end
}

// SlotCounts are a slab's slots by state; the states add up to Total.
type SlotCounts struct {
	Free        uint32 `json:"free"`
	Reserved    uint32 `json:"reserved"`
	Used        uint32 `json:"used"`
	Deleting    uint32 `json:"deleting"`
	Retired     uint32 `json:"retired"`
	Quarantined uint32 `json:"quarantined"`
	Total       uint32 `json:"total"`
}

// EngineStats is a snapshot of a slab's I/O engine.
type EngineStats struct {
	Name          string `json:"name"`
	Depth         int    `json:"depth"`                  // transfers on the device at once, at most
	Why           string `json:"why,omitempty"`          // why this engine, where the configuration left the choice
	Registered    bool   `json:"registered"`             // the memory of payloads is registered with the kernel
	Unregistered  string `json:"unregistered,omitempty"` // why the uring engine could not register it
	Direct        bool   `json:"direct"`                 // O_DIRECT is in effect
	Block         int    `json:"block"`                  // bytes; alignment of direct I/O
	InFlightOps   int    `json:"in_flight_ops"`
	InFlightBytes int64  `json:"in_flight_bytes"`
	QueuedOps     int    `json:"queued_ops"`
	MaxInFlight   int    `json:"max_in_flight"`
	Reads         uint64 `json:"reads"`
	Writes        uint64 `json:"writes"`
	ReadBytes     uint64 `json:"read_bytes"`
	WrittenBytes  uint64 `json:"written_bytes"`
	ReadErrors    uint64 `json:"read_errors"`
	WriteErrors   uint64 `json:"write_errors"`
	Flushes       uint64 `json:"flushes"`
}

// NamespaceStatus is one namespace's usage. Sizes are bytes of slots.
type NamespaceStatus struct {
	Name        string `json:"name"`
	Entries     int64  `json:"entries"`
	SlotBytes   int64  `json:"slot_bytes"`
	Quota       int64  `json:"quota"` // 0: no limit of its own
	PinnedBytes int64  `json:"pinned_bytes"`
	Configured  bool   `json:"configured"` // false: known from rows only; kept, not served
}

// RequestsResponse answers GET /v1/requests: those being answered, the oldest
// first.
type RequestsResponse struct {
	Total    int             `json:"total"` // the list is bounded
	Requests []RequestStatus `json:"requests"`
}

// RequestStatus is one request in flight.
type RequestStatus struct {
	ID        string `json:"id"`
	Method    string `json:"method"`
	Route     string `json:"route"` // pattern, never a key
	Namespace string `json:"namespace,omitempty"`
	AgeMS     int64  `json:"age_ms"`
	Stage     string `json:"stage"`          // start, client, queue, lock, device, commit, follow
	Slab      string `json:"slab,omitempty"` // that it waits for, or waited for last
	Keys      int    `json:"keys,omitempty"`
	BytesIn   int64  `json:"bytes_in"`
	BytesOut  int64  `json:"bytes_out"`
	Remote    string `json:"remote"`
}
