// SPDX-License-Identifier: Apache-2.0

package api

// StagedLease answers POST /v1/kv/{namespace}/{key}/leases: where in the
// namespace's shared segment the payload lies, whose length is the sum of all
// Len.
type StagedLease struct {
	ID      string   `json:"id"`
	Offsets []Extent `json:"offsets"`
}

// Extent is a part of a shared segment, in bytes.
type Extent struct {
	Offset int64 `json:"offset"`
	Len    int64 `json:"len"`
}
