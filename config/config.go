// SPDX-License-Identifier: Apache-2.0

package config

import "time"

// Config is the whole configuration of a daemon.
type Config struct {
	Listen     Listen      `mapstructure:"listen" yaml:"listen"`
	Auth       Auth        `mapstructure:"auth" yaml:"auth"`
	TLS        TLS         `mapstructure:"tls" yaml:"tls"`
	Meta       Meta        `mapstructure:"meta" yaml:"meta"`
	Slabs      []Slab      `mapstructure:"slabs" yaml:"slabs"`
	Namespaces []Namespace `mapstructure:"namespaces" yaml:"namespaces"` // none given: one called "default" over all slabs
	Eviction   Eviction    `mapstructure:"eviction" yaml:"eviction"`
	Leases     Leases      `mapstructure:"leases" yaml:"leases"`
	SHM        SHM         `mapstructure:"shm" yaml:"shm"`
	Limits     Limits      `mapstructure:"limits" yaml:"limits"`
	Log        Log         `mapstructure:"log" yaml:"log"`
}

// Listen says where the daemon answers. An empty address switches that
// listener off; at least one of Unix and HTTP must be on.
type Listen struct {
	Unix      string `mapstructure:"unix" yaml:"unix"` // absolute path of the socket
	UnixMode  Mode   `mapstructure:"unix_mode" yaml:"unix_mode"`
	UnixGroup string `mapstructure:"unix_group" yaml:"unix_group"` // name or number; empty: the daemon's own
	HTTP      string `mapstructure:"http" yaml:"http"`             // host:port of the data routes
	Admin     string `mapstructure:"admin" yaml:"admin"`           // host:port of metrics, health and profiles
	Lease     Lease  `mapstructure:"lease" yaml:"lease"`
}

// Lease is the optional listener that serves the lease routes alone, in plain
// HTTP and without tokens, as stock LMCache speaks it. Who may use it is told by
// address.
type Lease struct {
	Addr       string   `mapstructure:"addr" yaml:"addr"`
	AllowCIDRs []string `mapstructure:"allow_cidrs" yaml:"allow_cidrs"` // none: loopback alone
	Namespaces []string `mapstructure:"namespaces" yaml:"namespaces"`   // the only ones there are to it; at least one
}

// Auth names the file that maps tokens to namespaces.
type Auth struct {
	TokenFile string `mapstructure:"token_file" yaml:"token_file"` // empty: nobody needs a token, so http and admin must be on loopback
}

// TLS names the certificate of the http and admin listeners, in PEM; none: they
// speak plain HTTP. Its names are accepted in Host headers, too.
type TLS struct {
	CertFile string `mapstructure:"cert_file" yaml:"cert_file"`
	KeyFile  string `mapstructure:"key_file" yaml:"key_file"`
}

// Meta is where the rows live.
type Meta struct {
	Path      string `mapstructure:"path" yaml:"path"` // absolute directory, on another device than the slabs
	CacheSize Size   `mapstructure:"cache_size" yaml:"cache_size"`
	MinFree   Size   `mapstructure:"min_free" yaml:"min_free"` // stores stop when its file system has less
}

// Slab is one device.
type Slab struct {
	Name          string `mapstructure:"name" yaml:"name"`
	Device        string `mapstructure:"device" yaml:"device"`           // absolute path of a block device or a regular file
	SlotSize      Size   `mapstructure:"slot_size" yaml:"slot_size"`     // must equal the label's
	Durability    string `mapstructure:"durability" yaml:"durability"`   // sync | relaxed
	Verify        string `mapstructure:"verify" yaml:"verify"`           // always | off
	Engine        string `mapstructure:"engine" yaml:"engine"`           // auto | pread | uring
	Workers       int    `mapstructure:"workers" yaml:"workers"`         // of the pread engine: ops on the device at once
	QueueDepth    int    `mapstructure:"queue_depth" yaml:"queue_depth"` // of the uring engine: ops on the device at once
	IOSize        Size   `mapstructure:"io_size" yaml:"io_size"`         // payloads are split into ops of this size
	InflightBytes Size   `mapstructure:"inflight_bytes" yaml:"inflight_bytes"`
	Discard       string `mapstructure:"discard" yaml:"discard"` // off | on_init | on_free
}

// Namespace is a tenant's key space.
type Namespace struct {
	Name    string        `mapstructure:"name" yaml:"name"`
	Slabs   []string      `mapstructure:"slabs" yaml:"slabs"`
	Quota   Size          `mapstructure:"quota" yaml:"quota"` // bytes of slots; 0: no limit of its own
	TTL     time.Duration `mapstructure:"ttl" yaml:"ttl"`     // 0: entries do not expire
	MinHits int           `mapstructure:"min_hits" yaml:"min_hits"`
	Segment Segment       `mapstructure:"segment" yaml:"segment"`
}

// Segment is a namespace's staging segment; an empty name means none.
type Segment struct {
	Name  string   `mapstructure:"name" yaml:"name"`
	Size  AutoSize `mapstructure:"size" yaml:"size"`
	Mode  Mode     `mapstructure:"mode" yaml:"mode"`
	Group string   `mapstructure:"group" yaml:"group"`
}

// Eviction holds the watermarks as shares of a slab.
type Eviction struct {
	HighWatermark float64 `mapstructure:"high_watermark" yaml:"high_watermark"`
	LowWatermark  float64 `mapstructure:"low_watermark" yaml:"low_watermark"`
}

// Leases bounds what clients may pin.
type Leases struct {
	DefaultTTL time.Duration `mapstructure:"default_ttl" yaml:"default_ttl"`
	MaxTTL     time.Duration `mapstructure:"max_ttl" yaml:"max_ttl"`
	MaxPinned  float64       `mapstructure:"max_pinned" yaml:"max_pinned"` // share of a namespace's bytes
}

// SHM bounds client buffers in shared memory.
type SHM struct {
	Dirs     []string `mapstructure:"dirs" yaml:"dirs"`
	MaxBytes Size     `mapstructure:"max_bytes" yaml:"max_bytes"` // 0: no limit
}

// Limits bounds one request and the memory of all.
type Limits struct {
	BatchKeys       int           `mapstructure:"batch_keys" yaml:"batch_keys"`
	Payload         Size          `mapstructure:"payload" yaml:"payload"`           // longest payload of one key
	StreamBytes     Size          `mapstructure:"stream_bytes" yaml:"stream_bytes"` // memory of all bodies and responses together; at least twice payload
	JSONBytes       Size          `mapstructure:"json_bytes" yaml:"json_bytes"`     // memory of all JSON bodies together; at least the largest body of batch_keys keys
	Requests        int           `mapstructure:"requests" yaml:"requests"`         // data requests executing at once; more are answered 429
	RequestDeadline time.Duration `mapstructure:"request_deadline" yaml:"request_deadline"`
}

// Log says what is logged to stderr and how.
type Log struct {
	Level  string        `mapstructure:"level" yaml:"level"`   // debug | info | warn | error
	Format string        `mapstructure:"format" yaml:"format"` // text | json
	Slow   time.Duration `mapstructure:"slow" yaml:"slow"`     // a request that takes longer is logged; 0: off
}
