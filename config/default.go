// SPDX-License-Identifier: Apache-2.0

package config

import (
	"path/filepath"
	"slices"
	"time"
)

// Where a daemon without further instruction listens; clients look there too.
const (
	DefaultUnix  = "/run/rawblockd/rawblockd.sock"
	DefaultHTTP  = "127.0.0.1:9200"
	DefaultAdmin = "127.0.0.1:9201"
)

// Default returns every default. It has no slabs, so it does not validate
// before some are added.
func Default() *Config {
	return &Config{
		Listen: Listen{
			Unix: DefaultUnix, UnixMode: 0o660, HTTP: DefaultHTTP, Admin: DefaultAdmin,
			Lease: Lease{AllowCIDRs: []string{}, Namespaces: []string{}},
		},
		Meta:       Meta{Path: "/var/lib/rawblockd", CacheSize: 64 * MiB, MinFree: 256 * MiB},
		Slabs:      []Slab{},
		Namespaces: []Namespace{},
		Eviction:   Eviction{HighWatermark: 0.95, LowWatermark: 0.90},
		Leases:     Leases{DefaultTTL: 30 * time.Second, MaxTTL: 10 * time.Minute, MaxPinned: 0.5},
		SHM:        SHM{Dirs: []string{"/dev/shm"}},
		Limits: Limits{
			BatchKeys: 16384, Payload: 128 * MiB, StreamBytes: 512 * MiB, JSONBytes: 256 * MiB,
			Requests: 1024, RequestDeadline: time.Minute,
		},
		Log: Log{Level: "info", Format: "text", Slow: time.Second},
	}
}

// DefaultSlab returns the defaults of one element of slabs; name and device
// have none.
func DefaultSlab() Slab {
	return Slab{
		SlotSize: 2 * MiB, Durability: "sync", Verify: "always", Engine: "auto",
		Workers: 32, QueueDepth: 128, IOSize: MiB, InflightBytes: 256 * MiB, Discard: "off",
	}
}

// DefaultNamespace returns the defaults of one element of namespaces.
func DefaultNamespace() Namespace {
	return Namespace{Slabs: []string{}, Segment: Segment{Size: Auto, Mode: 0o640}}
}

// Dev returns the configuration of `serve --dev dir`: a file-backed slab, the
// metadata and the socket in dir, TCP on loopback only.
func Dev(dir string) *Config {
	c := Default()
	c.Listen.Unix = filepath.Join(dir, "rawblockd.sock")
	c.Meta.Path = filepath.Join(dir, "meta")
	s := DefaultSlab()
	s.Name, s.Device = "dev", filepath.Join(dir, "slab.img")
	c.Slabs = []Slab{s}
	c.fillNamespaces()
	return c
}

// fillNamespaces gives a configuration without namespaces the one called
// "default" over all its slabs.
func (c *Config) fillNamespaces() {
	if len(c.Namespaces) > 0 || len(c.Slabs) == 0 {
		return
	}
	n := DefaultNamespace()
	n.Name = "default"
	for _, s := range c.Slabs {
		if !slices.Contains(n.Slabs, s.Name) { // the repetition is reported where it is
			n.Slabs = append(n.Slabs, s.Name)
		}
	}
	c.Namespaces = []Namespace{n}
}
