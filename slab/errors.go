// SPDX-License-Identifier: Apache-2.0

package slab

import (
	"errors"
	"fmt"

	"github.com/rawblockd/rawblockd/ioengine"
)

// Formats.
var (
	ErrNoLabel  = errors.New("no rawblockd label")
	ErrLabel    = errors.New("label is damaged")
	ErrNoHeader = errors.New("no slot header")
	ErrHeader   = errors.New("slot header is damaged")
	ErrForeign  = errors.New("slot header belongs to another incarnation or slot")
	ErrIncompat = errors.New("written by a newer release")
	ErrGeometry = errors.New("geometry does not match")
)

// Init.
var (
	ErrRefused  = errors.New("refused") // Init changed nothing
	ErrTooSmall = errors.New("device is too small")
)

// Slots and payloads.
var (
	ErrOutOfRange = errors.New("no such slot")
	ErrTaken      = errors.New("slot is taken")
	ErrShape      = errors.New("slots, length and memory do not fit together")
	ErrCorrupt    = errors.New("payload does not match its checksum")
	ErrReadOnly   = errors.New("slab is read-only")
	ErrClosed     = errors.New("slab is closed")
)

// IOError is a transfer that failed. It says nothing about other transfers.
type IOError struct {
	Dir    ioengine.Dir
	Device string
	Slot   uint32
	Off    int64 // bytes from the start of the device
	Len    int64
	Err    error
}

// Error names the op as a human looks for it.
func (e *IOError) Error() string {
	return fmt.Sprintf("%s %d bytes at %d (slot %d) of %s: %v", e.Dir, e.Len, e.Off, e.Slot, e.Device, e.Err)
}

// Unwrap returns the engine's error.
func (e *IOError) Unwrap() error { return e.Err }
