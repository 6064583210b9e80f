// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// NamespaceRecord is the durable settings of one namespace; its name is the key.
type NamespaceRecord struct {
	Slabs       []string      // names; empty: all
	Quota       int64         // bytes of slots; 0: no limit
	TTL         time.Duration // of entries stored without one; 0: none
	Fingerprint string        // of the model whose chunks it holds; empty: not set
	// Seed tells which section of the configuration file the settings were last
	// taken from, by hash; 0: the namespace was never in the file.
	Seed uint64

	Features
}

const namespaceFixed = 28 // bytes before the fingerprint

// EncodeNamespace appends r's encoding to dst. Fingerprint, each name and their
// number must be shorter than 64 Ki; more is a caller's mistake and panics.
//
//	  0        1        2        3        4        5        6        7
//	┌───────────────────────────────────────────────────────────────────────┐
//	│      version, ext len, feature bits as in every record (record.go)    │ 0 … 15
//	├───────────────────────────────────────────────────────────────────────┤
//	│                 quota, bytes of slots, 0 = no limit                   │ 16
//	├───────────────────────────────────────────────────────────────────────┤
//	│                    time to live, ns, 0 = none                         │ 24
//	├───────────────────────────────────────────────────────────────────────┤
//	│             seed: hash of the file's section, 0 = none                │ 32
//	├─────────────────┬─────────────────┬───────────────────────────────────┘
//	│ fingerprint len │   slab count    │                                     40
//	├─────────────────┴─────────────────┴── ─ ─
//	│ fingerprint │ per slab: name len (2 bytes), name │ ext │ CRC32C         44
//	└────────────────────────────────────── ─ ─
//
// Little-endian; nothing is padded.
func EncodeNamespace(dst []byte, r *NamespaceRecord) []byte {
	if len(r.Slabs) > math.MaxUint16 {
		panic(fmt.Sprintf("meta: %d slabs are too many for a record", len(r.Slabs)))
	}
	return encodeRecord(dst, &r.Features, func(dst []byte) []byte {
		le := binary.LittleEndian
		for _, v := range [...]uint64{uint64(r.Quota), uint64(r.TTL), r.Seed} {
			dst = le.AppendUint64(dst, v)
		}
		dst = le.AppendUint16(dst, shortLen("fingerprint", r.Fingerprint))
		dst = le.AppendUint16(dst, uint16(len(r.Slabs)))
		dst = append(dst, r.Fingerprint...)
		for _, name := range r.Slabs {
			dst = le.AppendUint16(dst, shortLen("slab name", name))
			dst = append(dst, name...)
		}
		return dst
	})
}

// DecodeNamespace reads one record and shares no memory with b. Every input it
// accepts re-encodes to the same bytes.
func DecodeNamespace(b []byte) (NamespaceRecord, error) {
	f, body, err := decodeRecord(b, namespaceFixed)
	if err != nil {
		return NamespaceRecord{}, err
	}
	le := binary.LittleEndian
	r := NamespaceRecord{
		Quota: int64(le.Uint64(body)), TTL: time.Duration(le.Uint64(body[8:])), Seed: le.Uint64(body[16:]), Features: f,
	}
	rest := body[namespaceFixed:]
	if r.Fingerprint, rest, err = cut(rest, int(le.Uint16(body[24:]))); err != nil {
		return NamespaceRecord{}, err
	}
	for range le.Uint16(body[26:]) {
		if len(rest) < 2 {
			return NamespaceRecord{}, fmt.Errorf("%w: the list of slabs is cut", ErrRow)
		}
		var name string
		if name, rest, err = cut(rest[2:], int(le.Uint16(rest))); err != nil {
			return NamespaceRecord{}, err
		}
		r.Slabs = append(r.Slabs, name)
	}
	if len(rest) > 0 {
		return NamespaceRecord{}, fmt.Errorf("%w: %d bytes too many", ErrRow, len(rest))
	}
	return r, nil
}

func namespaceKey(name string) []byte { return append([]byte(prefixNamespace), name...) }

// SetNamespace stores the settings of a namespace.
func (b *Batch) SetNamespace(name string, r *NamespaceRecord) {
	b.buf = EncodeNamespace(b.buf[:0], r)
	b.add(b.pb.Set(namespaceKey(name), b.buf, nil))
}

// DeleteNamespace removes the settings of a namespace.
func (b *Batch) DeleteNamespace(name string) {
	b.add(b.pb.Delete(namespaceKey(name), nil))
}

// Namespaces calls fn for the settings of each namespace, in the byte order of
// names. err tells that this one record cannot be used: ErrIncompat or ErrRow.
func (db *DB) Namespaces(fn func(name string, r NamespaceRecord, err error)) error {
	lo := []byte(prefixNamespace)
	return db.iterate("scan namespaces", lo, successor(lo), func(key, value []byte) (bool, error) {
		r, err := DecodeNamespace(value)
		fn(string(key[len(prefixNamespace):]), r, err)
		return true, nil
	})
}
