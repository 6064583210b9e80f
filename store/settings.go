// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rawblockd/rawblockd/meta"
)

// settings are what is configured of a namespace. They are immutable: a change
// replaces the whole, once it is durable.
type settings struct {
	slabs       []string // names, as asked for; empty: all
	volumes     []int    // those of slabs that are there: where new entries go
	quota       int64    // bytes of slots; 0: no limit
	ttl         time.Duration
	fingerprint string

	seed   uint64 // the file's section that they were last taken from; 0: none
	inFile bool   // the configuration file names the namespace
	served bool
	stored bool          // there is a record in the metadata
	later  meta.Features // what a later release added to it
}

// SettingError says which setting of a namespace cannot be.
type SettingError struct {
	Field string // "name", "slabs", "quota", "ttl" or "fingerprint"
	Why   string
}

// Error implements error.
func (e *SettingError) Error() string { return e.Field + ": " + e.Why }

// maxName bounds the names of namespaces, in bytes.
const maxName = 63

// checkNamespace tells whether n can be a namespace, and returns its volumes.
func (s *Store) checkNamespace(n Namespace) ([]int, error) {
	if err := CheckKey(n.Name); err != nil {
		return nil, &SettingError{"name", err.Error()}
	}
	volumes, unknown := s.resolve(n.Slabs)
	for i, name := range n.Slabs {
		switch {
		case slices.Contains(unknown, name):
			return nil, &SettingError{"slabs", fmt.Sprintf("%q is not a slab: known are %s", name, strings.Join(s.slabNames(), ", "))}
		case slices.Contains(n.Slabs[:i], name):
			return nil, &SettingError{"slabs", fmt.Sprintf("%q is listed twice", name)}
		}
	}
	switch {
	case n.Quota < 0:
		return nil, &SettingError{"quota", fmt.Sprintf("%d is negative: want bytes, or 0 for no limit", n.Quota)}
	case n.TTL < 0 || n.TTL > 0 && n.TTL < time.Millisecond:
		return nil, &SettingError{"ttl", fmt.Sprintf("%v is too short: want at least 1ms, or 0 for none", n.TTL)}
	}
	if least := s.leastSlot(volumes); n.Quota > 0 && n.Quota < least {
		return nil, &SettingError{"quota", fmt.Sprintf("%d bytes are less than one slot (%d), so nothing could ever be stored: raise it, or set 0 for no limit", n.Quota, least)}
	}
	if n.Fingerprint != "" && CheckKey(n.Fingerprint) != nil {
		return nil, &SettingError{"fingerprint", fmt.Sprintf("want at most %d bytes of UTF-8 without control characters", MaxKey)}
	}
	return volumes, nil
}

// checkNew tells whether one more namespace may be made at run time, with this
// name. The rule for names is the configuration file's: they spoil no path, no
// terminal and no table.
func (s *Store) checkNew(name string) error {
	if !validName(name) {
		return &SettingError{"name", fmt.Sprintf("%q is no name: want 1 to %d letters, digits, dots, underscores and dashes, a letter or digit first", name, maxName)}
	}
	if most := math.MaxUint16; len(*s.names.Load()) >= most {
		return &SettingError{"name", fmt.Sprintf("there are %d namespaces, no more are possible: delete one first", most)}
	}
	return nil
}

func validName(name string) bool {
	for i := range len(name) {
		c := name[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return name != "" && len(name) <= maxName
}

// resolve returns the volumes of the slabs named, all for none, and the names
// that no slab has.
func (s *Store) resolve(slabs []string) (volumes []int, unknown []string) {
	if len(slabs) == 0 {
		for i := range s.volumes {
			volumes = append(volumes, i)
		}
		return volumes, nil
	}
	known := s.slabNames()
	for i, name := range known {
		if slices.Contains(slabs, name) {
			volumes = append(volumes, i)
		}
	}
	for _, name := range slabs {
		if !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}
	return volumes, unknown
}

// slabNames lists the slabs' names in the order of volumes.
func (s *Store) slabNames() []string {
	names := make([]string, len(s.volumes))
	for i, v := range s.volumes {
		names[i] = v.slab.Name()
	}
	return names
}

// leastSlot is the smallest slot size of volumes in bytes.
func (s *Store) leastSlot(volumes []int) int64 {
	least := int64(0)
	for _, v := range volumes {
		sl := s.volumes[v].slab
		if sl.SlotCount() == 0 {
			continue // its device is missing, and nothing is known of it
		}
		if size := sl.SlotSize(); least == 0 || size < least {
			least = size
		}
	}
	return least
}

// record is what becomes durable of settings.
func (set *settings) record() *meta.NamespaceRecord {
	return &meta.NamespaceRecord{
		Slabs: set.slabs, Quota: set.quota, TTL: set.ttl, Fingerprint: set.fingerprint, Seed: set.seed, Features: set.later,
	}
}

// with returns a copy of the settings that says what n says.
func (set *settings) with(n Namespace, volumes []int) *settings {
	next := *set
	next.slabs, next.volumes = slices.Clone(n.Slabs), volumes
	next.quota, next.ttl, next.fingerprint = n.Quota, n.TTL, n.Fingerprint
	next.stored = true
	return &next
}

// namespace is the settings as callers know them.
func (set *settings) namespace(name string) Namespace {
	return Namespace{Name: name, Slabs: slices.Clone(set.slabs), Quota: set.quota, TTL: set.ttl, Fingerprint: set.fingerprint}
}
