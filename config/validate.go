// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Validate returns nil or an *Error with every fault.
func (c *Config) Validate() error { return c.faults().err("") }

func (c *Config) faults() faults {
	var fs faults
	c.checkListen(&fs)
	c.checkTLS(&fs)
	c.checkMeta(&fs)
	c.checkSlabs(&fs)
	c.checkNamespaces(&fs)
	c.checkEviction(&fs)
	c.checkLeases(&fs)
	c.checkSHM(&fs)
	c.checkLimits(&fs)
	c.checkLog(&fs)
	c.checkRelease(&fs)
	return fs
}

func (c *Config) checkTLS(fs *faults) {
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		fs.add("tls", "cert_file and key_file belong together: set both or neither")
	}
	absolute(fs, "tls.cert_file", c.TLS.CertFile, true)
	absolute(fs, "tls.key_file", c.TLS.KeyFile, true)
	absolute(fs, "auth.token_file", c.Auth.TokenFile, true)
}

func (c *Config) checkMeta(fs *faults) {
	absolute(fs, "meta.path", c.Meta.Path, false)
	if c.Meta.CacheSize < MiB {
		fs.add("meta.cache_size", "%v is too small: want at least 1MiB", c.Meta.CacheSize)
	}
	if c.Meta.MinFree < MiB {
		fs.add("meta.min_free", "%v is too small: want at least 1MiB, so that deletes still fit when stores have stopped", c.Meta.MinFree)
	}
}

func (c *Config) checkNamespaces(fs *faults) {
	slot := map[string]Size{}
	var known []string
	for _, s := range c.Slabs {
		slot[s.Name] = s.SlotSize
		known = append(known, s.Name)
	}
	seen := map[string]int{}
	for i, n := range c.Namespaces {
		path := fmt.Sprintf("namespaces[%d]", i)
		checkName(fs, path+".name", n.Name)
		if first, dup := seen[n.Name]; dup && n.Name != "" {
			fs.add(path+".name", "%q is also the name of namespaces[%d]: names must be unique", n.Name, first)
		} else {
			seen[n.Name] = i
		}
		if len(n.Slabs) == 0 {
			fs.add(path+".slabs", "names no slab: want one or more of %s", strings.Join(known, ", "))
		}
		for j, s := range n.Slabs {
			at := fmt.Sprintf("%s.slabs[%d]", path, j)
			size, ok := slot[s]
			switch {
			case !ok:
				fs.add(at, "%q is not a slab: known are %s", s, strings.Join(known, ", "))
			case slices.Contains(n.Slabs[:j], s):
				fs.add(at, "%q is listed twice", s)
			case n.Quota > 0 && n.Quota < size:
				fs.add(path+".quota", "%v is less than one slot of %s (slot_size %v), so nothing could ever be stored: raise it, or write 0 for no limit", n.Quota, s, size)
			}
		}
		if n.MinHits < 0 {
			fs.add(path+".min_hits", "%d is negative", n.MinHits)
		}
	}
}

func (c *Config) checkEviction(fs *faults) {
	hi, lo := c.Eviction.HighWatermark, c.Eviction.LowWatermark
	if !(hi > 0 && hi <= 1) {
		fs.add("eviction.high_watermark", "%v is out of range: want more than 0 and at most 1", hi)
	}
	if !(lo > 0 && lo < hi) {
		fs.add("eviction.low_watermark", "%v is out of range: want more than 0 and less than high_watermark (%v)", lo, hi)
	}
}

func (c *Config) checkLeases(fs *faults) {
	l := c.Leases
	if l.DefaultTTL <= 0 {
		fs.add("leases.default_ttl", "%v must be more than 0", l.DefaultTTL)
	}
	if l.MaxTTL < l.DefaultTTL {
		fs.add("leases.max_ttl", "%v is less than leases.default_ttl (%v)", l.MaxTTL, l.DefaultTTL)
	}
	if !(l.MaxPinned > 0 && l.MaxPinned <= 1) {
		fs.add("leases.max_pinned", "%v is out of range: want more than 0 and at most 1", l.MaxPinned)
	}
}

func (c *Config) checkSHM(fs *faults) {
	for i, d := range c.SHM.Dirs {
		absolute(fs, fmt.Sprintf("shm.dirs[%d]", i), d, false)
	}
}

const (
	maxBatchKeys = 1 << 20 // bounds what one request can make the daemon allocate
	maxRequests  = 1 << 20

	// What a JSON body can take: a key at its longest, written with escapes, and
	// what is around the keys. These are the wire's; cmd/rawblockd tests that they
	// are those of package api, which this one may not import.
	jsonKeyBytes  = 3*1024 + 8
	jsonBodyBytes = 1 << 16
)

// LargestJSON returns the bytes of the largest JSON body that limits.batch_keys
// allow.
func (l Limits) LargestJSON() Size { return Size(l.BatchKeys)*jsonKeyBytes + jsonBodyBytes }

func (c *Config) checkLimits(fs *faults) {
	l := c.Limits
	between(fs, "limits.batch_keys", l.BatchKeys, 1, maxBatchKeys)
	if l.Payload < 4*KiB || l.Payload >= 4*GiB {
		fs.add("limits.payload", "%v is out of range: want at least 4KiB and less than 4GiB", l.Payload)
	}
	if l.StreamBytes < 2*l.Payload {
		fs.add("limits.stream_bytes", "%v is too small: want at least %v, which is twice limits.payload, or batches could wait for each other", l.StreamBytes, 2*l.Payload)
	}
	between(fs, "limits.requests", l.Requests, 1, maxRequests)
	if least := l.LargestJSON(); l.BatchKeys >= 1 && l.BatchKeys <= maxBatchKeys && l.JSONBytes < least {
		fs.add("limits.json_bytes", "%v is too small: want at least %v, which a batch of limits.batch_keys (%d) can take", l.JSONBytes, roundUp(least, MiB), l.BatchKeys)
	}
	if l.RequestDeadline < time.Millisecond {
		fs.add("limits.request_deadline", "%v is too short: want at least 1ms", l.RequestDeadline)
	}
}

func (c *Config) checkLog(fs *faults) {
	oneOf(fs, "log.level", c.Log.Level, "debug", "info", "warn", "error")
	oneOf(fs, "log.format", c.Log.Format, "text", "json")
	if c.Log.Slow < 0 {
		fs.add("log.slow", "%v is negative: want a duration, or 0 for off", c.Log.Slow)
	}
}

// roundUp returns the next multiple of unit, for a number that people read.
func roundUp(n, unit Size) Size { return (n + unit - 1) / unit * unit }

func oneOf(fs *faults, path, got string, allowed ...string) {
	if !slices.Contains(allowed, got) {
		fs.add(path, "%q is not allowed: want %s", got, strings.Join(allowed, ", "))
	}
}

func between(fs *faults, path string, got, lo, hi int) {
	if got < lo || got > hi {
		fs.add(path, "%d is out of range: want %d to %d", got, lo, hi)
	}
}

// absolute refuses relative paths: a daemon's working directory is nobody's
// choice.
func absolute(fs *faults, path, got string, mayBeEmpty bool) {
	switch {
	case got == "" && !mayBeEmpty:
		fs.add(path, "is missing: want an absolute path")
	case got != "" && !filepath.IsAbs(got):
		fs.add(path, "%q is relative: want an absolute path", got)
	}
}

func checkName(fs *faults, path, got string) {
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`).MatchString(got) {
		fs.add(path, "%q is no name: want 1 to 63 letters, digits, dots, underscores and dashes, a letter or digit first", got)
	}
}
