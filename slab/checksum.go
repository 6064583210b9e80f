// SPDX-License-Identifier: Apache-2.0

package slab

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"

	"github.com/rawblockd/rawblockd/ioengine"
)

// KeySeed binds a checksum to its key: bytes of another key fail it even when
// everything else matches. It is a format constant: XXH3-64 of the namespace's
// length (u32, little-endian), the namespace and the key.
func KeySeed(namespace, key string) uint64 {
	b := make([]byte, 0, 256)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(namespace)))
	b = append(b, namespace...)
	return xxh3.Hash(append(b, key...))
}

// Sum returns the checksum of a payload that lies in parts of PieceSize; bytes of
// parts beyond length do not count. seed is KeySeed ⊕ generation.
func Sum(parts [][]byte, length int64, seed uint64) uint64 {
	sums := make([]uint64, pieces(length))
	for i := range sums {
		sums[i] = pieceSum(parts, length, i, seed)
	}
	return combine(length, sums, seed)
}

// pieceSum hashes one piece where it lies.
func pieceSum(parts [][]byte, length int64, i int, seed uint64) uint64 {
	n := min(length-int64(i)*ioengine.PieceSize, ioengine.PieceSize)
	return xxh3.HashSeed(parts[i][:n], seed)
}

// combine makes one sum: XXH3-64 with the same seed over the length and the piece
// sums, all u64 little-endian. The length keeps a cut payload from passing.
func combine(length int64, sums []uint64, seed uint64) uint64 {
	b := make([]byte, 0, 1024+8)
	b = binary.LittleEndian.AppendUint64(b, uint64(length))
	for _, s := range sums {
		b = binary.LittleEndian.AppendUint64(b, s)
	}
	return xxh3.HashSeed(b, seed)
}
