// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/rawblockd/rawblockd/slab"
)

// SlabError says that a slab does not serve a key, or does not take it.
type SlabError struct {
	Slab   string // its name
	Health string // one of Healths
	Reason string // a sentence for whoever runs the host; may name the device
}

// Error names the slab, how it is, and why.
func (e *SlabError) Error() string {
	return fmt.Sprintf("slab %q is %s: %s", e.Slab, e.Health, e.Reason)
}

// roomError says that a slab has too few free slots for a payload.
type roomError struct {
	slab string
	free int64
	need int
}

func (e *roomError) Error() string {
	return fmt.Sprintf("slab %q has %d free slots, the payload needs %d", e.slab, e.free, e.need)
}

// metaRoomError says that the metadata's file system is short of something.
type metaRoomError string

func (e metaRoomError) Error() string { return string(e) }

// severalError is why each of several slabs refuses, in one line.
type severalError []error

func (e severalError) Error() string { return e.each(error.Error) }

// Unwrap returns all of them.
func (e severalError) Unwrap() []error { return e }

func (e severalError) each(text func(error) string) string {
	all := make([]string, len(e))
	for i, one := range e {
		all[i] = text(one)
	}
	return strings.Join(all, "; ")
}

// Plain is what err, of a key or of a request for keys, says to somebody who is
// none of those who run the host: the name of a slab at most, no paths of devices
// and of metadata, no slots, and not how full anything is that others share. For
// all else it is err's text.
func Plain(err error) string {
	var several severalError
	var sl *SlabError
	var room *roomError
	var meta metaRoomError
	var transfer *slab.IOError
	switch {
	case errors.As(err, &several):
		return "no slab of the namespace takes stores: " + several.each(Plain)
	case errors.As(err, &sl):
		return fmt.Sprintf("slab %q is %s", sl.Slab, sl.Health)
	case errors.As(err, &room):
		return fmt.Sprintf("slab %q has too few free slots, the payload needs %d", room.slab, room.need)
	case errors.As(err, &meta):
		return "the metadata's file system is short of space"
	case errors.As(err, &transfer):
		var no syscall.Errno
		if errors.As(err, &no) {
			return fmt.Sprintf("%s failed: %v", transfer.Dir, no)
		}
		return fmt.Sprintf("%s failed", transfer.Dir)
	}
	for _, sentinel := range []error{slab.ErrCorrupt, slab.ErrReadOnly, slab.ErrAbsent, slab.ErrClosed, ErrUnavailable} {
		if errors.Is(err, sentinel) {
			return sentinel.Error()
		}
	}
	return err.Error()
}
