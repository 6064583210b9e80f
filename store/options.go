// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rawblockd/rawblockd/ioengine"
	"github.com/rawblockd/rawblockd/meta"
	"github.com/rawblockd/rawblockd/slab"
)

// SlabConfig is one slab and how durable its answers are.
type SlabConfig struct {
	// Slab is nil where the device could not be opened; then Name and Device are
	// the configured ones, and Missing says why.
	Slab         *slab.Slab
	Name, Device string
	Missing      error
	Advice       string // what to do about that, for people
	// Relaxed: answers do not wait for the device; a background sync follows
	// within Options.SyncInterval. A crash may lose the last interval.
	Relaxed bool
}

// Namespace is the settings of one tenant's key space.
type Namespace struct {
	Name  string
	Slabs []string      // names of the slabs that new entries go to; empty means all
	Quota int64         // bytes of slots; 0: no limit of its own
	TTL   time.Duration // of entries stored without one; 0: none
	// Fingerprint names the model whose chunks the namespace holds; connectors set
	// it. Of a seed it counts only when that makes the namespace.
	Fingerprint string
}

// Options are what Open needs. Defaults live in package config; a zero here
// means zero.
type Options struct {
	Slabs        []SlabConfig
	Meta         *meta.DB
	Namespaces   []Namespace   // the configuration file's; see Reload
	DefaultTTL   time.Duration // of leases
	MaxTTL       time.Duration // of leases
	MaxPinned    float64       // share of a namespace's capacity that leases may pin
	MaxPayload   int64         // bytes of the longest entry
	Buffers      *ioengine.Arena
	Now          func() time.Time
	Log          *slog.Logger
	SyncInterval time.Duration // of relaxed slabs
	MinFree      int64         // bytes: stores are refused while the metadata's file system has less
	Progress     func(done, total uint64)
}

// Errors for a whole request. Use errors.Is.
var (
	ErrNamespace      = errors.New("unknown namespace")
	ErrNoLease        = errors.New("unknown or expired lease")
	ErrUnavailable    = errors.New("metadata store failed; changes are refused until the daemon restarts")
	ErrClosed         = errors.New("store is closed")
	ErrOutcomeUnknown = errors.New("deadline passed after publication: the outcome is unknown")
	ErrInvalidKey     = errors.New("invalid key")
	ErrMount          = errors.New("metadata and device do not belong together")
	ErrCursor         = errors.New("malformed cursor")
	ErrNoMemory       = errors.New("other requests held the memory of limits.stream_bytes")
	ErrPinLimit       = errors.New("stored, but not pinned")
	ErrSlab           = errors.New("unknown slab")
	ErrNotEmpty       = errors.New("namespace is not empty")
	ErrFromConfig     = errors.New("namespace is in the configuration file")
	ErrFingerprint    = errors.New("fingerprint does not match")
)

// MaxKey is the longest key in bytes.
const MaxKey = 1024

// CheckKey tells whether key is 1 to 1024 bytes of valid UTF-8 without control
// characters. The error says which rule is broken.
func CheckKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: empty", ErrInvalidKey)
	case len(key) > MaxKey:
		return fmt.Errorf("%w: %d bytes, the limit is %d", ErrInvalidKey, len(key), MaxKey)
	case !utf8.ValidString(key):
		return fmt.Errorf("%w: not valid UTF-8 (write binary keys in lower-case hex)", ErrInvalidKey)
	}
	for _, r := range key {
		if unicode.IsControl(r) {
			return fmt.Errorf("%w: control character %U", ErrInvalidKey, r)
		}
	}
	return nil
}

func (o *Options) validate() error {
	switch {
	case o.Meta == nil:
		return errors.New("store options: no metadata store")
	case o.Buffers == nil:
		return errors.New("store options: no buffers")
	case o.MaxPayload <= 0 || o.MaxPayload > math.MaxUint32:
		return fmt.Errorf("store options: largest payload %d is not in 1 … 4 GiB − 1", o.MaxPayload)
	case 2*o.MaxPayload > o.Buffers.Cap():
		return fmt.Errorf("store options: buffers of %d bytes are smaller than two payloads of %d: batches that wait for each other could fill them", o.Buffers.Cap(), o.MaxPayload)
	case len(o.Namespaces) == 0:
		return errors.New("store options: no namespaces")
	case o.DefaultTTL <= 0 || o.MaxTTL < o.DefaultTTL:
		return fmt.Errorf("store options: lease times %v and %v", o.DefaultTTL, o.MaxTTL)
	case o.SyncInterval <= 0:
		return errors.New("store options: no sync interval")
	}
	return checkSlabs(o.Slabs)
}
