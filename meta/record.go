// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Features are what a newer release added to a record. Unknown compat and
// ro_compat bits are kept with the bytes they brought along, so that rewriting a
// record loses nothing; an unknown incompat bit refuses it. Zero in every record
// that this release makes.
type Features struct {
	Compat   uint32
	ROCompat uint32
	Incompat uint32
	Ext      []byte
}

// Namespace and slab records have one frame around what they say:
//
//	  0        1        2        3        4        5        6        7
//	┌────────┬────────┬─────────────────┬───────────────────────────────────┐
//	│version │   0    │     ext len     │              compat               │  0
//	├────────┴────────┴─────────────────┼───────────────────────────────────┤
//	│             ro_compat             │             incompat              │  8
//	├───────────────────────────────────┴── ─ ─
//	│ the record's own fields │ ext │ CRC32C of all before it                 16
//	└────────────────────────────────────── ─ ─
const (
	recordVersion = 1
	recordHead    = 16
	recordCRC     = 4

	// recordIncompat is the set of incompat bits that this release understands.
	recordIncompat = 0
)

// encodeRecord frames what body appends. Ext must be shorter than 64 KiB.
func encodeRecord(dst []byte, f *Features, body func([]byte) []byte) []byte {
	start := len(dst)
	le := binary.LittleEndian
	dst = append(dst, recordVersion, 0)
	dst = le.AppendUint16(dst, shortLen("ext", f.Ext))
	for _, v := range [...]uint32{f.Compat, f.ROCompat, f.Incompat} {
		dst = le.AppendUint32(dst, v)
	}
	dst = body(dst)
	dst = append(dst, f.Ext...)
	return le.AppendUint32(dst, castagnoli(dst[start:]))
}

// decodeRecord takes the frame off: body, which still belongs to b, has at least
// fixed bytes.
func decodeRecord(b []byte, fixed int) (f Features, body []byte, err error) {
	if least := recordHead + fixed + recordCRC; len(b) < least {
		return f, nil, fmt.Errorf("%w: %d bytes, at least %d needed", ErrRow, len(b), least)
	}
	le := binary.LittleEndian
	body = b[:len(b)-recordCRC]
	if got, want := castagnoli(body), le.Uint32(b[len(body):]); got != want {
		return f, nil, fmt.Errorf("%w: checksum %08x, computed %08x", ErrRow, want, got)
	}
	if b[0] != recordVersion {
		return f, nil, fmt.Errorf("%w: record version %d, this release knows %d", ErrIncompat, b[0], recordVersion)
	}
	f.Compat, f.ROCompat, f.Incompat = le.Uint32(b[4:]), le.Uint32(b[8:]), le.Uint32(b[12:])
	if bits := f.Incompat &^ recordIncompat; bits != 0 {
		return f, nil, fmt.Errorf("%w: record feature bits %#x", ErrIncompat, bits)
	}
	ext := int(le.Uint16(b[2:]))
	if b[1] != 0 || recordHead+fixed+ext > len(body) {
		return f, nil, fmt.Errorf("%w: parts do not add up to %d bytes", ErrRow, len(b))
	}
	if ext > 0 {
		f.Ext = append([]byte(nil), body[len(body)-ext:]...)
	}
	return f, body[recordHead : len(body)-ext], nil
}

// shortLen is a length that two bytes hold. More is a caller's mistake.
func shortLen[T string | []byte](what string, v T) uint16 {
	if len(v) > math.MaxUint16 {
		panic(fmt.Sprintf("meta: %s of %d bytes is too long for a record", what, len(v)))
	}
	return uint16(len(v))
}

// cut takes n bytes off the front of b as a string.
func cut(b []byte, n int) (string, []byte, error) {
	if n > len(b) {
		return "", nil, fmt.Errorf("%w: %d bytes where %d were announced", ErrRow, len(b), n)
	}
	return string(b[:n]), b[n:], nil
}
