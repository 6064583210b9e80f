// SPDX-License-Identifier: Apache-2.0

package meta

import "errors"

// At open.
var (
	// ErrHeld says that another process, or another DB of this one, holds the directory.
	ErrHeld = errors.New("metadata directory is in use")
	// ErrIncompat says that a newer release wrote what this one must not interpret.
	ErrIncompat = errors.New("incompatible metadata format")
)

// While open.
var (
	// ErrFailed says that metaFailed is set: of a change the outcome is unknown
	// until the next start, and no later change is accepted.
	ErrFailed = errors.New("metadata store has failed")
	// ErrRow says that some bytes are no valid row.
	ErrRow = errors.New("invalid metadata row")
	// ErrGenerations says that the 64-bit generations are used up.
	ErrGenerations = errors.New("generations exhausted")
)
