// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// example is the YAML of the documented contract, comments left out.
const example = `
listen:
  unix: /run/rawblockd/rawblockd.sock
  unix_mode: "0660"
  unix_group: ""
  http: 127.0.0.1:9200
  admin: 127.0.0.1:9201
  lease: {addr: "", allow_cidrs: [], namespaces: []}
auth:   {token_file: ""}
tls:    {cert_file: "", key_file: ""}
meta:   {path: /var/lib/rawblockd, cache_size: 64MiB, min_free: 256MiB}
slabs:
  - name: fast0
    device: /dev/disk/by-id/nvme-EXAMPLE
    slot_size: 2MiB
    durability: sync
    verify: always
    engine: auto
    workers: 32
    queue_depth: 128
    io_size: 1MiB
    inflight_bytes: 256MiB
    discard: off
namespaces:
  - {name: default, slabs: [fast0], quota: 0, ttl: 0s, min_hits: 0}
  - {name: lmcache, slabs: [fast0], segment: {name: rawblockd, size: auto, mode: "0640", group: ""}}
eviction: {high_watermark: 0.95, low_watermark: 0.90}
leases:   {default_ttl: 30s, max_ttl: 10m, max_pinned: 0.5}
shm:      {dirs: [/dev/shm], max_bytes: 0}
limits:   {batch_keys: 16384, payload: 128MiB, stream_bytes: 512MiB, json_bytes: 256MiB, requests: 1024, request_deadline: 60s}
log:      {level: info, format: text, slow: 1s}
`

// short is the least that loads; tests add what they are about.
const short = "slabs: [{name: a, device: /dev/a}]\n"

func load(base *Config, source string, text []byte, environ []string) (*Config, error) {
	c, _, err := merge(base, source, text, environ)
	return c, err
}

func loadText(t *testing.T, text string, environ ...string) (*Config, error) {
	t.Helper()
	return load(Default(), "test.yaml", []byte(text), environ)
}

func mustLoad(t *testing.T, text string, environ ...string) *Config {
	t.Helper()
	c, err := loadText(t, text, environ...)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return c
}

func TestExampleLoads(t *testing.T) {
	got := mustLoad(t, example)
	want := Default()
	slab := DefaultSlab()
	slab.Name, slab.Device = "fast0", "/dev/disk/by-id/nvme-EXAMPLE"
	want.Slabs = []Slab{slab}
	def, lm := DefaultNamespace(), DefaultNamespace()
	def.Name, def.Slabs = "default", []string{"fast0"}
	lm.Name, lm.Slabs, lm.Segment = "lmcache", []string{"fast0"}, exampleSegment()
	want.Namespaces = []Namespace{def, lm}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the documented example is not the defaults (-want +got):\n%s", diff)
	}
	if notes := strings.Join(got.Notes(), "\n"); !strings.Contains(notes, "namespaces[1].segment") {
		t.Errorf("notes do not name the segment:\n%s", notes)
	}
}

func TestEngines(t *testing.T) {
	for _, engine := range []string{"auto", "pread", "uring"} {
		for _, depth := range []int{1, 4096} {
			c := mustLoad(t, fmt.Sprintf("slabs: [{name: a, device: /dev/a, engine: %s, queue_depth: %d}]\n", engine, depth))
			if s := c.Slabs[0]; s.Engine != engine || s.QueueDepth != depth {
				t.Errorf("%s, %d: got %+v", engine, depth, s)
			}
		}
	}
}

func TestDefaultsFillWhatIsMissing(t *testing.T) {
	got := mustLoad(t, "slabs: [{name: a, device: /dev/a, workers: 8}]\nlisten: {http: \"\"}\nauth:\n")
	want := Default()
	want.Listen.HTTP = ""
	s := DefaultSlab()
	s.Name, s.Device, s.Workers = "a", "/dev/a", 8
	n := DefaultNamespace()
	n.Name, n.Slabs = "default", []string{"a"}
	want.Slabs, want.Namespaces = []Slab{s}, []Namespace{n}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPrintedConfigLoadsEqual(t *testing.T) {
	want := mustLoad(t, example)
	text, err := want.YAML()
	if err != nil {
		t.Fatal(err)
	}
	got := mustLoad(t, string(text))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("printed and read again (-want +got):\n%s\n%s", diff, text)
	}
}

// TestScalarsKeepTheirText guards against YAML's own ideas of off, 0660 and
// 1e3.
func TestScalarsKeepTheirText(t *testing.T) {
	c := mustLoad(t, `
slabs: [{name: 1e3, device: /dev/a, discard: off, io_size: 2097152, inflight_bytes: 0.5GiB}]
listen: {unix_mode: 0600, unix_group: 007}
namespaces: [{name: "on", slabs: [1e3], ttl: 1h30m}]
`)
	if got, want := c.Slabs[0].Name, "1e3"; got != want {
		t.Errorf("name: got %q, want %q", got, want)
	}
	if got, want := c.Slabs[0].IOSize, 2*MiB; got != want {
		t.Errorf("io_size: got %v, want %v", got, want)
	}
	if got, want := c.Slabs[0].InflightBytes, 512*MiB; got != want {
		t.Errorf("inflight_bytes: got %v, want %v", got, want)
	}
	if got, want := c.Listen.UnixMode, Mode(0o600); got != want {
		t.Errorf("unix_mode: got %v, want %v", got, want)
	}
	if got, want := c.Listen.UnixGroup, "007"; got != want {
		t.Errorf("unix_group: got %q, want %q", got, want)
	}
	if got, want := c.Namespaces[0].TTL, 90*time.Minute; got != want {
		t.Errorf("ttl: got %v, want %v", got, want)
	}
}

func TestEnvironment(t *testing.T) {
	c := mustLoad(t, short+"log: {level: warn}\n",
		"RAWBLOCKD_LOG_LEVEL=debug",
		"RAWBLOCKD_LISTEN_UNIX_MODE=0600",
		"RAWBLOCKD_LIMITS_REQUEST_DEADLINE=5s",
		"RAWBLOCKD_LEASES_MAX_PINNED=0.25",
		"RAWBLOCKD_META_CACHE_SIZE=1GiB",
		"RAWBLOCKD_LISTEN_HTTP=",
		"RAWBLOCKD_SLABS=[{name: b, device: /dev/b, io_size: 4MiB}]",
		"RAWBLOCKD_NAMESPACES=[{name: n, slabs: [b]}]",
		"RAWBLOCKD_ADDR=unix:/x", "RAWBLOCKD_NAMESPACE=n", "RAWBLOCKD_TOKEN=t", "RAWBLOCKD_TOKEN_FILE=/t", "RAWBLOCKD_CA_FILE=/c",
		"RAWBLOCKD_SERVICE_HOST=10.0.0.1", "RAWBLOCKD_META_PORT_9201_TCP=tcp://10.0.0.1:9201", "RAWBLOCKD_PORT=x",
	)
	if c.Log.Level != "debug" || c.Listen.UnixMode != 0o600 || c.Limits.RequestDeadline != 5*time.Second ||
		c.Leases.MaxPinned != 0.25 || c.Meta.CacheSize != GiB || c.Listen.HTTP != "" {
		t.Errorf("scalars of the environment did not win: %+v", c)
	}
	if len(c.Slabs) != 1 || c.Slabs[0].Name != "b" || c.Slabs[0].IOSize != 4*MiB || c.Slabs[0].Workers != 32 {
		t.Errorf("RAWBLOCKD_SLABS: got %+v", c.Slabs)
	}
	if len(c.Namespaces) != 1 || c.Namespaces[0].Name != "n" {
		t.Errorf("RAWBLOCKD_NAMESPACES: got %+v", c.Namespaces)
	}
}

func TestDevValidates(t *testing.T) {
	dir := t.TempDir()
	c, err := load(Dev(dir), "", nil, []string{"RAWBLOCKD_LOG_FORMAT=json"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Slabs[0].Device != filepath.Join(dir, "slab.img") || c.Meta.Path != filepath.Join(dir, "meta") ||
		c.Listen.Unix != filepath.Join(dir, "rawblockd.sock") || c.Log.Format != "json" || c.Namespaces[0].Slabs[0] != "dev" {
		t.Errorf("got %+v", c)
	}
}

func TestLoadNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.yaml")
	if _, err := Load(path); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("missing file: got %v", err)
	}
	if err := os.WriteFile(path, []byte(short+"log: {levle: info}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(path)
	want := "configuration " + path + `: line 2: log.levle: unknown key: did you mean "level"?`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %v", err, want)
	}
	if err := os.WriteFile(path, []byte(short), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err != nil {
		t.Errorf("good file: %v", err)
	}
}

// An empty list in the environment wins over the file's like any other, written either
// way.
func TestEmptyListOfTheEnvironment(t *testing.T) {
	const file = short + "listen: {lease: {addr: '127.0.0.1:9300', namespaces: [default], allow_cidrs: [10.0.0.0/8]}}\n"
	if c := mustLoad(t, file); len(c.Listen.Lease.AllowCIDRs) != 1 {
		t.Fatalf("got %+v", c.Listen.Lease)
	}
	for _, empty := range []string{"", "[]", " # none"} {
		if c := mustLoad(t, file, "RAWBLOCKD_LISTEN_LEASE_ALLOW_CIDRS="+empty); len(c.Listen.Lease.AllowCIDRs) != 0 {
			t.Errorf("%q: got %v", empty, c.Listen.Lease.AllowCIDRs)
		}
	}
}
