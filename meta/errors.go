// SPDX-License-Identifier: Apache-2.0

package meta

import "errors"

// At open.
var (
	// ErrHeld says that another process, or another DB of this one, holds the directory.
	ErrHeld = errors.New("metadata directory is in use")
	// ErrForeign says that what is at the path is something else; nothing was changed.
	ErrForeign = errors.New("not a rawblockd metadata directory")
	// ErrDamaged says that files of the store are missing or unreadable.
	ErrDamaged = errors.New("metadata is damaged")
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
