// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/rawblockd/rawblockd/ioengine"
	"github.com/rawblockd/rawblockd/meta"
	"github.com/rawblockd/rawblockd/slab"
)

func TestPlain(t *testing.T) {
	transfer := &slab.IOError{Dir: ioengine.Read, Device: "/dev/secret", Slot: 77, Off: 1 << 30, Len: 4096, Err: syscall.EIO}
	off := &SlabError{"fast0", HealthOffline, "every read fails, the last one: " + transfer.Error()}
	for want, err := range map[string]error{
		"read failed: input/output error":                      fmt.Errorf("load: %w", transfer),
		"read failed":                                          &slab.IOError{Dir: ioengine.Read, Device: "/dev/secret", Err: errors.New("/dev/secret is odd")},
		`slab "fast0" is offline`:                              fmt.Errorf("x: %w", off),
		"payload does not match its checksum":                  fmt.Errorf("slab %q slot 77: %w", "fast0", slab.ErrCorrupt),
		"the metadata's file system is short of space":         fmt.Errorf("x: %w", metaRoomError("it has 5 bytes free")),
		"slab is read-only":                                    fmt.Errorf("%w: %w", slab.ErrReadOnly, errors.New("fdatasync /dev/secret")),
		"slab has no device":                                   fmt.Errorf("%w: open /dev/secret", slab.ErrAbsent),
		`slab "a" has too few free slots, the payload needs 4`: &roomError{"a", 3, 4},
		`no slab of the namespace takes stores: slab "fast0" is offline; slab "b" is draining`: fmt.Errorf("no slab: %w", severalError{off, &SlabError{"b", HealthDraining, "it is being drained"}}),
		ErrUnavailable.Error():              fmt.Errorf("%w: %w: write /var/lib/secret", ErrUnavailable, meta.ErrFailed),
		"namespace \"n\" uses 5 of 6 bytes": errors.New("namespace \"n\" uses 5 of 6 bytes"),
	} {
		if got := Plain(err); got != want {
			t.Errorf("%v: got %q, want %q", err, got, want)
		}
	}
}
