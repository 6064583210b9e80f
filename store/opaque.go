// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
)

// opaque makes what is handed out to clients and says nothing to them. Generations
// and slots count for all namespaces together: as they are, they would tell each
// tenant how much the others store, and where.
//
// It is a keyed permutation of blocks of 16 bytes. The key is made of the
// incarnations, which are random and which no tenant is told: so what it makes is
// the same after a restart with the same slabs, and nothing has to be kept for it.
type opaque struct{ block cipher.Block }

// What a block begins with; so nothing made for one use is good for another.
const (
	opaqueTag    = 0x7461672d // followed by 4 bytes of 0 and the generation
	opaqueCursor = 0x6375722d // followed by the volume, the slot, and 6 bytes of the namespace's hash
)

// newOpaque keys the permutation.
func newOpaque(volumes []*volume) opaque {
	incs := make([][]byte, 0, len(volumes))
	for _, v := range volumes {
		incs = append(incs, bytes.Clone(v.inc[:]))
	}
	slices.SortFunc(incs, bytes.Compare)
	key := sha256.Sum256(append([]byte("rawblockd: what is handed out"), bytes.Join(incs, nil)...))
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic("store: AES takes keys of 32 bytes: " + err.Error())
	}
	return opaque{block}
}

func (o opaque) seal(b [aes.BlockSize]byte) string {
	o.block.Encrypt(b[:], b[:])
	return hex.EncodeToString(b[:])
}

// Tag returns a name for the entry of a generation, 32 hexadecimal digits. No two
// entries ever share one, and it stays the same across restarts with the same
// slabs. It tells nothing of when the entry was stored, or of how many others were.
func (s *Store) Tag(gen uint64) string {
	var b [aes.BlockSize]byte
	binary.BigEndian.PutUint32(b[:], opaqueTag)
	binary.BigEndian.PutUint64(b[8:], gen)
	return s.opaque.seal(b)
}

// cursorBlock is a cursor in the clear.
func cursorBlock(sp *space, vol int, slot uint32) (b [aes.BlockSize]byte) {
	of := sha256.Sum256([]byte(sp.name))
	binary.BigEndian.PutUint32(b[:], opaqueCursor)
	binary.BigEndian.PutUint16(b[4:], uint16(vol))
	binary.BigEndian.PutUint32(b[6:], slot)
	copy(b[10:], of[:])
	return b
}

// cursor says where a list of a namespace goes on.
func (s *Store) cursor(sp *space, vol int, slot uint32) string {
	return s.opaque.seal(cursorBlock(sp, vol, slot))
}

// parseCursor reads one; "" is the beginning.
func (s *Store) parseCursor(sp *space, cursor string) (vol int, from uint32, err error) {
	if cursor == "" {
		return 0, 0, nil
	}
	raw, err := hex.DecodeString(cursor)
	if err == nil && len(raw) == aes.BlockSize {
		s.opaque.block.Decrypt(raw, raw)
		vol, from = int(binary.BigEndian.Uint16(raw[4:])), binary.BigEndian.Uint32(raw[6:])
		if want := cursorBlock(sp, vol, from); bytes.Equal(raw, want[:]) && vol < len(s.volumes) {
			return vol, from, nil
		}
	}
	return 0, 0, fmt.Errorf("%w %q: use the one that the last page of this namespace gave", ErrCursor, cursor)
}
