// SPDX-License-Identifier: Apache-2.0

package slab

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/ioengine"
)

// Formats.
var (
	ErrNoLabel  = errors.New("no rawblockd label")
	ErrLabel    = errors.New("label is damaged")
	ErrUnread   = errors.New("the label cannot be read") // no copy of it: what is on the device is not known
	ErrNoHeader = errors.New("no slot header")
	ErrHeader   = errors.New("slot header is damaged")
	ErrForeign  = errors.New("slot header belongs to another incarnation or slot")
	ErrIncompat = errors.New("written by a newer release")
	ErrGeometry = errors.New("geometry does not match")
	ErrBlocks   = errors.New("device is not supported") // its blocks are larger than a label
)

// Init.
var (
	ErrOption   = errors.New("wrong option") // given wrongly, whatever the device; nothing was looked at
	ErrRefused  = errors.New("refused")      // Init changed nothing
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
	ErrAbsent     = errors.New("slab has no device")
)

// optionError says what is wrong with an option and nothing else. It is an ErrOption.
type optionError struct {
	text  string
	cause error // a further sentinel, or nil
}

func (e *optionError) Error() string { return e.text }

func (e *optionError) Unwrap() []error {
	if e.cause == nil {
		return []error{ErrOption}
	}
	return []error{ErrOption, e.cause}
}

// TruncatedError says that a device ends before its slab does. It is an ErrGeometry.
type TruncatedError struct {
	Incarnation [16]byte // the label's, as are
	SlotSize    int64    // bytes, and
	Slots       uint32
	Need, Size  int64 // bytes: of the slab, and of the device
}

// Error says both sizes.
func (e *TruncatedError) Error() string {
	return fmt.Sprintf("%v: the label's %d slots and its last copy need %s, the device has %s: it is truncated or not the one that was initialised",
		ErrGeometry, e.Slots, human(e.Need), human(e.Size))
}

// Unwrap returns ErrGeometry.
func (e *TruncatedError) Unwrap() error { return ErrGeometry }

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
	text := fmt.Sprintf("%s %d bytes at %d (slot %d) of %s: %v", e.Dir, e.Len, e.Off, e.Slot, e.Device, e.Err)
	if e.Dir == ioengine.Write && errors.Is(e.Err, unix.EPERM) {
		text += "; the device is read-only: " + ioengine.ReadOnlyRemedy(e.Device)
	}
	return text
}

// Unwrap returns the engine's error.
func (e *IOError) Unwrap() error { return e.Err }
