// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"encoding/binary"
	"fmt"
)

// The version row guards the layout of all keys and values together, as the
// fields of the same name in each row guard that row. Only an explicit upgrade
// verb ever sets an incompat bit.
const (
	layoutVersion  = 1
	layoutROCompat = 0 // bits this release may write under
	layoutIncompat = 0 // bits this release understands
	versionLen     = 1 + 3*4
)

// encodeVersion:
//
//	  0         1              5              9             13
//	┌─────────┬──────────────┬──────────────┬──────────────┐
//	│ version │    compat    │  ro_compat   │   incompat   │  little-endian
//	└─────────┴──────────────┴──────────────┴──────────────┘
func encodeVersion() []byte {
	b := make([]byte, versionLen)
	b[0] = layoutVersion
	return b
}

// checkVersion refuses a store that this release must not write.
func (db *DB) checkVersion() error {
	ok, err := db.get([]byte(keyVersion), parseVersion)
	if err != nil {
		return fmt.Errorf("version row: %w", err)
	}
	if !ok {
		return fmt.Errorf("%w: no version row: not a store of rawblockd", ErrIncompat)
	}
	return nil
}

func parseVersion(b []byte) error {
	if len(b) < versionLen {
		return fmt.Errorf("%w: %d bytes, at least %d needed", ErrRow, len(b), versionLen)
	}
	if b[0] != layoutVersion {
		return fmt.Errorf("%w: version %d, this release knows %d", ErrIncompat, b[0], layoutVersion)
	}
	if bits := binary.LittleEndian.Uint32(b[5:]) &^ layoutROCompat; bits != 0 {
		return fmt.Errorf("%w: may only be read by this release, ro_compat bits %#x", ErrIncompat, bits)
	}
	if bits := binary.LittleEndian.Uint32(b[9:]) &^ layoutIncompat; bits != 0 {
		return fmt.Errorf("%w: incompat bits %#x", ErrIncompat, bits)
	}
	return nil
}
