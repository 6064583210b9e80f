// SPDX-License-Identifier: Apache-2.0

package api

// Version is the name of this contract, as /v1/info reports it and paths begin.
const Version = "v1"

// Media types.
const (
	MediaJSON    = "application/json"
	MediaFrames  = "application/vnd.rawblockd.frames"
	MediaOctets  = "application/octet-stream"
	MediaProblem = "application/problem+json"
	MediaText    = "text/plain"           // the keys of a compact lookup, one a line
	MediaNDJSON  = "application/x-ndjson" // events, one a line
)

// Header names.
const (
	// HeaderInstance is on every response: it changes with every start of the
	// daemon, so a client learns that its leases are gone.
	HeaderInstance = "Rawblockd-Instance"

	// What a lookup says beside its bitmap.
	HeaderKeys       = "Rawblockd-Keys"        // how many bits count
	HeaderHits       = "Rawblockd-Hits"        // how many are set
	HeaderPrefixHits = "Rawblockd-Prefix-Hits" // leading run of set bits
	HeaderLease      = "Rawblockd-Lease"       // id; only where a lease was taken

	// HeaderSlots goes with a slab's map: how many slots the slab has.
	HeaderSlots = "Rawblockd-Slots"
)

// MaxKeyBytes is the longest key.
const MaxKeyBytes = 1024
