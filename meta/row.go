// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

// Row is the durable record of one entry.
type Row struct {
	Namespace string
	Key       string
	Gen       uint64   // generation of the reservation that wrote the slots; never 0
	Len       uint64   // payload bytes
	More      []uint32 // further slots after the head, in payload order
	Sum       uint64   // combined checksum of the payload
	StoredAt  int64    // unix ms
	ExpiresAt int64    // unix ms, 0 = never

	// For eviction. Family and After are hashes, 0 = none; Run and Pos are the
	// entry's place in the batch that stored it.
	Family uint64
	After  uint64
	Run    uint64
	Pos    uint32

	// What a newer release added. Unknown compat and ro_compat bits are kept
	// with the bytes they brought along, so that re-encoding loses nothing; an
	// unknown incompat bit refuses the row. Zero in every row this release makes.
	Compat   uint32
	ROCompat uint32
	Incompat uint32
	Ext      []byte
}

const (
	rowVersion = 1
	rowFixed   = 92 // bytes before the namespace
	rowCRC     = 4
	rowMin     = rowFixed + rowCRC

	// rowIncompat is the set of incompat bits that this release understands.
	rowIncompat = 0
)

// castagnoli's table is chosen by hardware support inside hash/crc32; the call is cheap.
func castagnoli(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// EncodeRow appends r's encoding to dst. Namespace, Key and Ext must each be
// shorter than 64 KiB; longer ones are a caller's mistake and panic.
//
//	  0        1        2        3        4        5        6        7
//	┌────────┬────────┬─────────────────┬─────────────────┬─────────────────┐
//	│version │   0    │     key len     │  namespace len  │     ext len     │  0
//	├────────┴────────┴─────────────────┼─────────────────┴─────────────────┤
//	│              compat               │             ro_compat             │  8
//	├───────────────────────────────────┼───────────────────────────────────┤
//	│             incompat              │            more count             │ 16
//	├───────────────────────────────────┴───────────────────────────────────┤
//	│                              generation                               │ 24
//	├───────────────────────────────────────────────────────────────────────┤
//	│                            payload length                             │ 32
//	├───────────────────────────────────────────────────────────────────────┤
//	│                               checksum                                │ 40
//	├───────────────────────────────────────────────────────────────────────┤
//	│                         stored at, unix ms                            │ 48
//	├───────────────────────────────────────────────────────────────────────┤
//	│                  expires at, unix ms, 0 = never                       │ 56
//	├───────────────────────────────────────────────────────────────────────┤
//	│                                family                                 │ 64
//	├───────────────────────────────────────────────────────────────────────┤
//	│                                 after                                 │ 72
//	├───────────────────────────────────────────────────────────────────────┤
//	│                                  run                                  │ 80
//	├───────────────────────────────────┬───────────────────────────────────┘
//	│                pos                │                                     88
//	├───────────────────────────────────┴── ─ ─
//	│ namespace │ key │ more: 4 bytes each │ ext │ CRC32C of all before it     92
//	└────────────────────────────────────── ─ ─
//
// Little-endian; nothing is padded. Fixed widths rather than varints: a scan of
// millions of rows spends its time here, and Pebble compresses the zeros away.
func EncodeRow(dst []byte, r *Row) []byte {
	if len(r.Key) > math.MaxUint16 || len(r.Namespace) > math.MaxUint16 || len(r.Ext) > math.MaxUint16 {
		panic(fmt.Sprintf("meta: row field too long: key %d, namespace %d, ext %d bytes", len(r.Key), len(r.Namespace), len(r.Ext)))
	}
	start := len(dst)
	le := binary.LittleEndian
	dst = append(dst, rowVersion, 0)
	dst = le.AppendUint16(dst, uint16(len(r.Key)))
	dst = le.AppendUint16(dst, uint16(len(r.Namespace)))
	dst = le.AppendUint16(dst, uint16(len(r.Ext)))
	dst = le.AppendUint32(dst, r.Compat)
	dst = le.AppendUint32(dst, r.ROCompat)
	dst = le.AppendUint32(dst, r.Incompat)
	dst = le.AppendUint32(dst, uint32(len(r.More)))
	for _, v := range [...]uint64{r.Gen, r.Len, r.Sum, uint64(r.StoredAt), uint64(r.ExpiresAt), r.Family, r.After, r.Run} {
		dst = le.AppendUint64(dst, v)
	}
	dst = le.AppendUint32(dst, r.Pos)
	dst = append(dst, r.Namespace...)
	dst = append(dst, r.Key...)
	for _, s := range r.More {
		dst = le.AppendUint32(dst, s)
	}
	dst = append(dst, r.Ext...)
	return le.AppendUint32(dst, castagnoli(dst[start:]))
}

// DecodeRow reads one row and shares no memory with b. Every input it accepts
// re-encodes to the same bytes.
func DecodeRow(b []byte) (Row, error) {
	var r Row
	err := decodeRow(&r, b)
	return r, err
}

// decodeRow overwrites r. It keeps r.Namespace when the bytes are equal: rows
// of one namespace come in long runs, and the string need not be made again.
func decodeRow(r *Row, b []byte) error {
	if len(b) < rowMin {
		return fmt.Errorf("%w: %d bytes, at least %d needed", ErrRow, len(b), rowMin)
	}
	le := binary.LittleEndian
	body := b[:len(b)-rowCRC]
	if got, want := castagnoli(body), le.Uint32(b[len(body):]); got != want {
		return fmt.Errorf("%w: checksum %08x, computed %08x", ErrRow, want, got)
	}
	if b[0] != rowVersion {
		return fmt.Errorf("%w: row version %d, this release knows %d", ErrIncompat, b[0], rowVersion)
	}
	if bits := le.Uint32(b[16:]) &^ rowIncompat; bits != 0 {
		return fmt.Errorf("%w: row feature bits %#x", ErrIncompat, bits)
	}
	keyLen, nsLen, extLen := int(le.Uint16(b[2:])), int(le.Uint16(b[4:])), int(le.Uint16(b[6:]))
	more := int64(le.Uint32(b[20:]))
	if b[1] != 0 || int64(rowFixed+nsLen+keyLen+extLen)+4*more != int64(len(body)) {
		return fmt.Errorf("%w: parts do not add up to %d bytes", ErrRow, len(b))
	}
	ns := r.Namespace
	rest := body[rowFixed:]
	if ns != string(rest[:nsLen]) {
		ns = string(rest[:nsLen])
	}
	*r = Row{
		Namespace: ns,
		Key:       string(rest[nsLen : nsLen+keyLen]),
		Gen:       le.Uint64(b[24:]),
		Len:       le.Uint64(b[32:]),
		Sum:       le.Uint64(b[40:]),
		StoredAt:  int64(le.Uint64(b[48:])),
		ExpiresAt: int64(le.Uint64(b[56:])),
		Family:    le.Uint64(b[64:]),
		After:     le.Uint64(b[72:]),
		Run:       le.Uint64(b[80:]),
		Pos:       le.Uint32(b[88:]),
		Compat:    le.Uint32(b[8:]),
		ROCompat:  le.Uint32(b[12:]),
		Incompat:  le.Uint32(b[16:]),
	}
	decodeTail(r, rest[nsLen+keyLen:], int(more))
	return nil
}

func decodeTail(r *Row, b []byte, more int) {
	if more > 0 {
		r.More = make([]uint32, more)
		for i := range r.More {
			r.More[i] = binary.LittleEndian.Uint32(b[4*i:])
		}
	}
	if ext := b[4*more:]; len(ext) > 0 {
		r.Ext = append([]byte(nil), ext...)
	}
}
