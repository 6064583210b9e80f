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
)

// Header names.
const (
	// HeaderInstance is on every response: it changes with every start of the
	// daemon, so a client learns that its leases are gone.
	HeaderInstance = "Rawblockd-Instance"
)

// MaxKeyBytes is the longest key.
const MaxKeyBytes = 1024
