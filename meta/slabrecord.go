// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"encoding/binary"
	"fmt"
)

// SlabRecord is what is known of a slab while its device cannot be asked.
type SlabRecord struct {
	Inc      Incarnation // set by Slabs; not in the encoding: it is the key
	Name     string
	Device   string // path at the last mount
	SlotSize int64  // bytes
	Slots    uint32

	Features
}

const slabFixed = 16 // bytes before the name

// EncodeSlab appends r's encoding to dst. Name and Device must be shorter than
// 64 KiB; longer ones are a caller's mistake and panic.
//
//	  0        1        2        3        4        5        6        7
//	┌───────────────────────────────────────────────────────────────────────┐
//	│      version, ext len, feature bits as in every record (record.go)    │ 0 … 15
//	├───────────────────────────────────────────────────────────────────────┤
//	│                          slot size, bytes                             │ 16
//	├───────────────────────────────────┬─────────────────┬─────────────────┤
//	│               slots               │    name len     │   device len    │ 24
//	├───────────────────────────────────┴─────────────────┴─────────────────┘
//	│ name │ device │ ext │ CRC32C                                            32
//	└────────────────────────────────────── ─ ─
//
// Little-endian; nothing is padded.
func EncodeSlab(dst []byte, r *SlabRecord) []byte {
	return encodeRecord(dst, &r.Features, func(dst []byte) []byte {
		le := binary.LittleEndian
		dst = le.AppendUint64(dst, uint64(r.SlotSize))
		dst = le.AppendUint32(dst, r.Slots)
		dst = le.AppendUint16(dst, shortLen("slab name", r.Name))
		dst = le.AppendUint16(dst, shortLen("device path", r.Device))
		dst = append(dst, r.Name...)
		return append(dst, r.Device...)
	})
}

// DecodeSlab reads one record, but for Inc, and shares no memory with b. Every
// input it accepts re-encodes to the same bytes.
func DecodeSlab(b []byte) (SlabRecord, error) {
	f, body, err := decodeRecord(b, slabFixed)
	if err != nil {
		return SlabRecord{}, err
	}
	le := binary.LittleEndian
	r := SlabRecord{SlotSize: int64(le.Uint64(body)), Slots: le.Uint32(body[8:]), Features: f}
	rest := body[slabFixed:]
	if r.Name, rest, err = cut(rest, int(le.Uint16(body[12:]))); err != nil {
		return SlabRecord{}, err
	}
	if r.Device, rest, err = cut(rest, int(le.Uint16(body[14:]))); err != nil {
		return SlabRecord{}, err
	}
	if len(rest) > 0 {
		return SlabRecord{}, fmt.Errorf("%w: %d bytes too many", ErrRow, len(rest))
	}
	return r, nil
}

func slabKey(inc Incarnation) []byte { return append([]byte(prefixSlab), inc[:]...) }

// SetSlab stores what is to be known of a slab without its device; r.Inc does
// not count.
func (b *Batch) SetSlab(inc Incarnation, r SlabRecord) {
	b.buf = EncodeSlab(b.buf[:0], &r)
	b.add(b.pb.Set(slabKey(inc), b.buf, nil))
}

// Slab returns the record of a slab; ok is false if there is none. ErrRow:
// there is one that says nothing; ErrIncompat: one of a later release.
func (db *DB) Slab(inc Incarnation) (r SlabRecord, ok bool, err error) {
	ok, err = db.get(slabKey(inc), func(value []byte) error {
		r, err = DecodeSlab(value)
		return err
	})
	if err != nil {
		return SlabRecord{}, false, fmt.Errorf("record of slab %v: %w", inc, err)
	}
	r.Inc = inc
	return r, ok, nil
}

// Slabs lists the records of slabs in the byte order of incarnations. Those that
// cannot be used are left out and named by the error: ErrIncompat or ErrRow.
func (db *DB) Slabs() ([]SlabRecord, error) {
	var all []SlabRecord
	var bad error
	refuse := func(err error) {
		if bad != nil {
			err = fmt.Errorf("%w; %w", bad, err)
		}
		bad = err
	}
	lo := []byte(prefixSlab)
	err := db.iterate("scan slab records", lo, successor(lo), func(key, value []byte) (bool, error) {
		r, err := DecodeSlab(value)
		switch {
		case len(key) != mountLen:
			refuse(fmt.Errorf("record of a slab: %w: key of %d bytes", ErrRow, len(key)))
		case err != nil:
			refuse(fmt.Errorf("record of slab %v: %w", Incarnation(key[len(prefixSlab):]), err))
		default:
			r.Inc = Incarnation(key[len(prefixSlab):])
			all = append(all, r)
		}
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	return all, bad
}
