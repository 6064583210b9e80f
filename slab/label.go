// SPDX-License-Identifier: Apache-2.0

package slab

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/bits"
	"strings"
	"time"
	"unicode/utf8"
)

// LabelSize is the size of one label copy.
const LabelSize = block

const (
	labelMagic   = "RBLKDLBL"
	labelVersion = 1

	maxName   = 64
	maxHost   = 255
	maxBootID = 64

	// Feature bits this release knows. None exist yet.
	knownCompat   = 0
	knownROCompat = 0
	knownIncompat = 0
)

// Holder is the process that mounted the slab last.
type Holder struct {
	Host   string
	BootID string // of the host's kernel: a pid means nothing after a reboot
	PID    int
}

// Label is the superblock of a slab. Its geometry never changes after Init.
type Label struct {
	Incarnation [16]byte // the identity: random, made by each Init
	Name        string   // as given to Init, at most 64 bytes; for humans
	SlotSize    int64    // bytes of payload in one slot
	Stride      int64    // HeaderZone + SlotSize
	HeaderZone  int64    // bytes in front of each slot's payload
	SlotCount   uint32
	DataOffset  int64 // where the first header zone begins
	PieceSize   int64
	DeviceSize  int64 // at Init; the device may have grown since
	Mount       uint64
	Holder      Holder
	Created     time.Time // to the millisecond
	Epoch       uint64    // grows with every write of the label; the highest valid copy wins

	Compat   uint32 // unknown bits: no matter
	ROCompat uint32 // unknown bits: read-only
	Incompat uint32 // unknown bits: not at all
}

// UUID prints an incarnation in the usual form.
func UUID(inc [16]byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", inc[0:4], inc[4:6], inc[6:8], inc[8:10], inc[10:16])
}

// Title names a slab by its name, if it has one.
func (l Label) Title() string { return title(l.Name) }

func title(name string) string {
	if name == "" {
		return "slab without a name"
	}
	return fmt.Sprintf("slab %q", name)
}

// EncodeLabel returns the 4 KiB block of a label. Names that are too long are cut:
// they are for humans, and a mount must not fail for a long host name.
//
// All numbers are little-endian. CRC is CRC-32C of bytes 0 to 4091.
//
//	     0       4       8      12      16      20      24
//	   0 | magic "RBLKDLBL" |version|compat |ro_comp|incompt|
//	  24 | incarnation (16 bytes)        |
//	  40 | epoch         | mount number  | created (unix ms)|
//	  64 | device size   | slot size     | stride           |
//	  88 | header zone   | data offset   | piece size       |
//	 112 | slots | pid   |
//	 120 | name length u16 | host length u16 | boot id length u16 | 0 u16 |
//	 128 | name    (64 bytes, zero padded)
//	 192 | host    (255 bytes, zero padded) + 1 zero
//	 448 | boot id (64 bytes, zero padded)
//	 512 | zero; kept as found when the label is rewritten
//	4092 | CRC   |
func EncodeLabel(l *Label) []byte {
	b := make([]byte, LabelSize)
	patchLabel(b, l)
	return b
}

// patchLabel writes l over a label block and leaves what this release does not
// know as it is: a newer release may keep fields there that go with a compat bit.
func patchLabel(b []byte, l *Label) {
	le := binary.LittleEndian
	copy(b, labelMagic)
	le.PutUint32(b[8:], labelVersion)
	le.PutUint32(b[12:], l.Compat)
	le.PutUint32(b[16:], l.ROCompat)
	le.PutUint32(b[20:], l.Incompat)
	copy(b[24:40], l.Incarnation[:])
	le.PutUint64(b[40:], l.Epoch)
	le.PutUint64(b[48:], l.Mount)
	le.PutUint64(b[56:], uint64(l.Created.UnixMilli()))
	for i, n := range []int64{l.DeviceSize, l.SlotSize, l.Stride, l.HeaderZone, l.DataOffset, l.PieceSize} {
		le.PutUint64(b[64+8*i:], uint64(n))
	}
	le.PutUint32(b[112:], l.SlotCount)
	le.PutUint32(b[116:], uint32(int32(l.Holder.PID)))
	putString(b, 120, 128, maxName, l.Name)
	putString(b, 122, 192, maxHost, l.Holder.Host)
	putString(b, 124, 448, maxBootID, l.Holder.BootID)
	seal(b)
}

// DecodeLabel reads one copy. ErrNoLabel: something else lies there. ErrLabel: it
// was a label once. ErrIncompat: a newer release wrote it; then only incarnation,
// epoch and feature bits are filled in, so that such a copy still outranks older
// ones.
func DecodeLabel(b []byte) (Label, error) {
	var l Label
	if len(b) < LabelSize || string(b[:8]) != labelMagic {
		return l, ErrNoLabel
	}
	b = b[:LabelSize]
	if !sealed(b) {
		return l, fmt.Errorf("%w: checksum mismatch", ErrLabel)
	}
	le := binary.LittleEndian
	l.Compat, l.ROCompat, l.Incompat = le.Uint32(b[12:]), le.Uint32(b[16:]), le.Uint32(b[20:])
	copy(l.Incarnation[:], b[24:40])
	l.Epoch = le.Uint64(b[40:])
	if v := le.Uint32(b[8:]); v != labelVersion {
		return l, fmt.Errorf("label of format version %d, this release knows %d: %w", v, labelVersion, ErrIncompat)
	}
	if unknown := l.Incompat &^ knownIncompat; unknown != 0 {
		return l, fmt.Errorf("label has unknown incompat feature %s: %w", bitNames(unknown), ErrIncompat)
	}
	l.Mount = le.Uint64(b[48:])
	l.Created = time.UnixMilli(int64(le.Uint64(b[56:])))
	for i, p := range []*int64{&l.DeviceSize, &l.SlotSize, &l.Stride, &l.HeaderZone, &l.DataOffset, &l.PieceSize} {
		*p = int64(le.Uint64(b[64+8*i:]))
	}
	l.SlotCount = le.Uint32(b[112:])
	l.Holder.PID = int(int32(le.Uint32(b[116:])))
	var ok [3]bool
	l.Name, ok[0] = getString(b, 120, 128, maxName)
	l.Holder.Host, ok[1] = getString(b, 122, 192, maxHost)
	l.Holder.BootID, ok[2] = getString(b, 124, 448, maxBootID)
	if ok != [3]bool{true, true, true} {
		return Label{}, fmt.Errorf("%w: impossible name", ErrLabel)
	}
	return l, nil
}

// putString stores a string's length at lenAt and its bytes, zero padded, at off.
func putString(b []byte, lenAt, off, limit int, s string) {
	if len(s) > limit {
		for limit > 0 && !utf8.RuneStart(s[limit]) {
			limit--
		}
		s = s[:limit]
	}
	binary.LittleEndian.PutUint16(b[lenAt:], uint16(len(s)))
	clear(b[off : off+limit])
	copy(b[off:], s)
}

func getString(b []byte, lenAt, off, limit int) (string, bool) {
	n := int(binary.LittleEndian.Uint16(b[lenAt:]))
	if n > limit || strings.Trim(string(b[off+n:off+limit]), "\x00") != "" {
		return "", false
	}
	return string(b[off : off+n]), true
}

// bitNames prints the numbers of the set bits, as the format's documentation
// counts them.
func bitNames(mask uint32) string {
	var names []string
	for ; mask != 0; mask &= mask - 1 {
		names = append(names, fmt.Sprint(bits.TrailingZeros32(mask)))
	}
	if len(names) == 1 {
		return "bit " + names[0]
	}
	return "bits " + strings.Join(names, ", ")
}

// seal writes the CRC of a 4 KiB block into its last four bytes.
func seal(b []byte) {
	binary.LittleEndian.PutUint32(b[block-4:], blockCRC(b))
}

func sealed(b []byte) bool {
	return binary.LittleEndian.Uint32(b[block-4:]) == blockCRC(b)
}

func blockCRC(b []byte) uint32 {
	return crc32.Checksum(b[:block-4], crc32.MakeTable(crc32.Castagnoli))
}
