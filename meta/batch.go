// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Batch collects changes that Commit applies together or not at all. It is
// spent by Commit.
type Batch struct {
	pb  *pebble.Batch
	n   int
	buf []byte
	err error // the first change that could not be added; Commit returns it
}

// NewBatch returns an empty batch.
func (db *DB) NewBatch() *Batch { return &Batch{pb: db.pb.NewBatch()} }

func (b *Batch) add(err error) {
	b.n++
	if b.err == nil {
		b.err = err
	}
}

// Set stores the row of the entry that starts in slot head.
func (b *Batch) Set(inc Incarnation, head uint32, r *Row) {
	k := makeSlotKey(prefixRow, inc, head)
	b.buf = EncodeRow(b.buf[:0], r)
	b.add(b.pb.Set(k[:], b.buf, nil))
}

// Delete removes the row of the entry that starts in slot head.
func (b *Batch) Delete(inc Incarnation, head uint32) {
	k := makeSlotKey(prefixRow, inc, head)
	b.add(b.pb.Delete(k[:], nil))
}

// Quarantine records that a slot is out of use, and why.
func (b *Batch) Quarantine(inc Incarnation, slot uint32, reason string) {
	k := makeSlotKey(prefixQuarantine, inc, slot)
	b.add(b.pb.Set(k[:], append([]byte{valueVersion}, reason...), nil))
}

// Unquarantine takes the record back.
func (b *Batch) Unquarantine(inc Incarnation, slot uint32) {
	k := makeSlotKey(prefixQuarantine, inc, slot)
	b.add(b.pb.Delete(k[:], nil))
}

// SetMount stores the slab's mount number.
func (b *Batch) SetMount(inc Incarnation, n uint64) {
	b.add(b.pb.Set(mountKey(inc), encodeNumber(n), nil))
}

// Forget removes everything known about a slab.
func (b *Batch) Forget(inc Incarnation) {
	for _, prefix := range [...]string{prefixRow, prefixQuarantine} {
		lo, hi := slotBounds(prefix, inc, 0, 0)
		b.add(b.pb.DeleteRange(lo, hi, nil))
	}
	b.add(b.pb.Delete(mountKey(inc), nil))
	b.add(b.pb.Delete(slabKey(inc), nil))
}

// Len is the number of changes so far.
func (b *Batch) Len() int { return b.n }

// valueVersion starts every value that is no row: version byte, then the bare
// content. Pebble's block checksums cover them.
const valueVersion = 1

const numberLen = 1 + 8

func encodeNumber(n uint64) []byte {
	return binary.LittleEndian.AppendUint64([]byte{valueVersion}, n)
}

func decodeNumber(b []byte) (uint64, error) {
	body, err := decodeValue(b)
	if err != nil {
		return 0, err
	}
	if len(b) != numberLen {
		return 0, fmt.Errorf("%w: number of %d bytes", ErrRow, len(body))
	}
	return binary.LittleEndian.Uint64(body), nil
}

func decodeValue(b []byte) ([]byte, error) {
	if len(b) == 0 {
		return nil, fmt.Errorf("%w: empty value", ErrRow)
	}
	if b[0] != valueVersion {
		return nil, fmt.Errorf("%w: value version %d, this release knows %d", ErrIncompat, b[0], valueVersion)
	}
	return b[1:], nil
}
