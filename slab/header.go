// SPDX-License-Identifier: Apache-2.0

package slab

import (
	"encoding/binary"
	"fmt"
)

// HeaderSize is the size of a slot header.
const HeaderSize = block

const (
	headerMagic   = "RBLKDSLT"
	headerVersion = 1
	headerFixed   = 128 // where namespace and key begin

	maxHeaderText = block - 4 - headerFixed
)

// Header lies in front of each slot's bytes. Loads never read it.
type Header struct {
	Incarnation [16]byte
	Slot        uint32 // its own number, to detect misdirected writes
	Gen         uint64
	Part, Parts uint32 // this slot is part Part (from 0) of Parts
	Namespace   string
	Key         string
	Len         int64  // of the whole payload
	Sum         uint64 // of the whole payload; 0 in all parts but the first
	StoredAt    int64  // unix ms
	ExpiresAt   int64  // unix ms, 0 = never

	Compat, ROCompat, Incompat uint32
}

// EncodeHeader fills dst, which must be HeaderSize long.
//
// All numbers are little-endian. CRC is CRC-32C of bytes 0 to 4091.
//
//	     0       4       8      12      16      20      24
//	   0 | magic "RBLKDSLT" |version|compat |ro_comp|incompt|
//	  24 | incarnation (16 bytes)        |
//	  40 | slot  | part  | parts | zero  |
//	  56 | generation    | payload length| checksum         |
//	  80 | stored (ms)   | expires (ms)  |
//	  96 | namespace length u16 | key length u16 | zero (28 bytes)
//	 128 | namespace, key, zero ...
//	4092 | CRC   |
func EncodeHeader(dst []byte, h *Header) error {
	if len(dst) != HeaderSize {
		return fmt.Errorf("%w: %d bytes for a header", ErrShape, len(dst))
	}
	if err := checkHeaderText(h.Namespace, h.Key); err != nil {
		return err
	}
	clear(dst)
	le := binary.LittleEndian
	copy(dst, headerMagic)
	le.PutUint32(dst[8:], headerVersion)
	le.PutUint32(dst[12:], h.Compat)
	le.PutUint32(dst[16:], h.ROCompat)
	le.PutUint32(dst[20:], h.Incompat)
	copy(dst[24:40], h.Incarnation[:])
	le.PutUint32(dst[40:], h.Slot)
	le.PutUint32(dst[44:], h.Part)
	le.PutUint32(dst[48:], h.Parts)
	le.PutUint64(dst[56:], h.Gen)
	le.PutUint64(dst[64:], uint64(h.Len))
	le.PutUint64(dst[72:], h.Sum)
	le.PutUint64(dst[80:], uint64(h.StoredAt))
	le.PutUint64(dst[88:], uint64(h.ExpiresAt))
	le.PutUint16(dst[96:], uint16(len(h.Namespace)))
	le.PutUint16(dst[98:], uint16(len(h.Key)))
	n := copy(dst[headerFixed:], h.Namespace)
	copy(dst[headerFixed+n:], h.Key)
	seal(dst)
	return nil
}

// DecodeHeader reads a slot header. ErrNoHeader: none was ever written here.
// ErrHeader: damaged. ErrIncompat: a newer release wrote it.
func DecodeHeader(b []byte) (Header, error) {
	var h Header
	if len(b) < HeaderSize || string(b[:8]) != headerMagic {
		return h, ErrNoHeader
	}
	b = b[:HeaderSize]
	if !sealed(b) {
		return h, fmt.Errorf("%w: checksum mismatch", ErrHeader)
	}
	le := binary.LittleEndian
	h.Compat, h.ROCompat, h.Incompat = le.Uint32(b[12:]), le.Uint32(b[16:]), le.Uint32(b[20:])
	if v := le.Uint32(b[8:]); v != headerVersion {
		return Header{}, fmt.Errorf("slot header of format version %d, this release knows %d: %w", v, headerVersion, ErrIncompat)
	}
	if unknown := h.Incompat &^ knownIncompat; unknown != 0 {
		return Header{}, fmt.Errorf("slot header has unknown incompat feature %s: %w", bitNames(unknown), ErrIncompat)
	}
	copy(h.Incarnation[:], b[24:40])
	h.Slot, h.Part, h.Parts = le.Uint32(b[40:]), le.Uint32(b[44:]), le.Uint32(b[48:])
	h.Gen, h.Len, h.Sum = le.Uint64(b[56:]), int64(le.Uint64(b[64:])), le.Uint64(b[72:])
	h.StoredAt, h.ExpiresAt = int64(le.Uint64(b[80:])), int64(le.Uint64(b[88:]))
	ns, key := int(le.Uint16(b[96:])), int(le.Uint16(b[98:]))
	if ns+key > maxHeaderText {
		return Header{}, fmt.Errorf("%w: namespace and key of %d bytes", ErrHeader, ns+key)
	}
	if h.Len < 1 || h.Part >= h.Parts {
		return Header{}, fmt.Errorf("%w: part %d of %d, %d bytes", ErrHeader, h.Part, h.Parts, h.Len)
	}
	text := b[headerFixed:]
	h.Namespace, h.Key = string(text[:ns]), string(text[ns:ns+key])
	// Only a feature this release does not know may have put something there.
	known := h.Compat&^knownCompat == 0 && h.ROCompat&^knownROCompat == 0
	if known && !(isZero(b[52:56]) && isZero(b[100:headerFixed]) && isZero(b[headerFixed+ns+key:block-4])) {
		return Header{}, fmt.Errorf("%w: bytes outside its fields", ErrHeader)
	}
	return h, nil
}

// checkHeaderText refuses names that do not fit a header block. Limits of the API
// are far below.
func checkHeaderText(namespace, key string) error {
	if n := len(namespace) + len(key); n > maxHeaderText {
		return fmt.Errorf("%w: namespace and key have %d bytes, a slot header holds %d", ErrShape, n, maxHeaderText)
	}
	return nil
}
