// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"strings"
	"testing"
)

// TestFaults gives Load one wrong text each; every want must be in the fault's
// line, which names path, value and what is allowed.
func TestFaults(t *testing.T) {
	tests := []struct {
		name string
		text string
		env  []string
		want []string // each is one fault, in the file's order
	}{
		{"unknown key", short + "listen:\n  htpp: 1", nil, []string{`line 3: listen.htpp: unknown key: did you mean "http"?`}},
		{"unknown section", short + "cache: {}", nil, []string{`line 2: cache: unknown key: known here are listen, auth`}},
		{"dotted key", short + "listen.http: x", nil, []string{`listen.http: unknown key`}},
		{"unknown key of a slab", "slabs:\n- name: a\n  device: /dev/a\n  slotsize: 2MiB", nil, []string{`line 4: slabs[0].slotsize: unknown key: did you mean "slot_size"?`}},
		{"repeated", short + "log: {level: info, level: warn}", nil, []string{`line 2: log.level: the key is here twice, first on line 2`}},
		{"case", short + "log:\n  level: info\n  Level: warn", nil, []string{`line 4: log.Level: differs only in case from "level" on line 3`}},
		{"case of sections", short + "Slabs: []", nil, []string{`Slabs: differs only in case from "slabs" on line 1`}},
		{"case alone", short + "Log: {level: info}", nil, []string{`Log: unknown key: did you mean "log"?`}},
		{"merge key", "slabs:\n- &x {name: a, device: /dev/a}\n- {<<: *x, name: b}", nil, []string{`slabs[1].<<: unknown key`, `slabs[1].device: is missing`}},
		{"wrong unit", short + "meta: {cache_size: 64M}", nil, []string{`meta.cache_size: "64M" has the unknown unit "M": allowed are B, KiB, MiB, GiB, TiB, KB, MB, GB, TB`}},
		{"unit in the wrong case", short + "meta: {cache_size: 64mib}", nil, []string{`"64mib" has the unknown unit "mib"`}},
		{"wrong unit in a list", "slabs: [{name: a, device: /dev/a, inflight_bytes: 256Mb}]", nil, []string{`slabs[0].inflight_bytes: "256Mb" has the unknown unit "Mb"`}},
		{"negative size", short + "meta: {cache_size: -1MiB}", nil, []string{`meta.cache_size: "-1MiB" is not a size`}},
		{"huge size", short + "meta: {cache_size: 99999999TiB}", nil, []string{`is more than`}},
		{"half a byte", short + "meta: {cache_size: 1.5B}", nil, []string{`not a whole number of bytes`}},
		{"duration without unit", short + "leases: {default_ttl: 30}", nil, []string{`leases.default_ttl: "30" is not a duration: want a number with one of the units ns, us, ms, s, m, h`}},
		{"negative duration", short + "leases: {default_ttl: -3s}", nil, []string{`"-3s" is negative`}},
		{"mode", short + "listen: {unix_mode: 0999}", nil, []string{`"0999" is not a file mode`}},
		{"number", "slabs: [{name: a, device: /dev/a, workers: many}]", nil, []string{`slabs[0].workers: "many" is not a whole number`}},
		{"list for a section", short + "log: [info]", nil, []string{`log: want a section with the keys level, format, slow, got a list`}},
		{"scalar for a list", short + "namespaces: a", nil, []string{`namespaces: want a list, got "a"`}},
		{"section for a scalar", short + "log: {level: {}}", nil, []string{`log.level: want a single value, got a section`}},
		{"no value", short + "listen:\n  http:", nil, []string{`line 3: listen.http: has no value`}},
		{"empty element", "slabs:\n- {name: a, device: /dev/a}\n-", nil, []string{`slabs[1]: the list has an empty element`}},
		{"two documents", short + "---\nlog: {}", nil, []string{`a second YAML document`}},
		{"no YAML", "slabs: [", nil, []string{`configuration test.yaml: line 1: it is no YAML: did not find expected node content`}},
		{"alias within itself", "slabs: &s [*s]", nil, []string{`slabs[0]`}},
		{"nothing", "", nil, []string{`slabs: there is none`}},
		{"all at once", "log: {level: loud}\nleases: {max_pinned: 2}\nslabs:\n- name: a\n  device: a\n  io_size: 3MB", nil, []string{
			`line 1: log.level: "loud" is not allowed: want debug, info, warn, error`,
			`line 2: leases.max_pinned: 2 is out of range`,
			`line 5: slabs[0].device: "a" is relative`,
			`line 6: slabs[0].io_size: 2929.6875KiB`,
		}[:3]},

		{"relaxed without verify", "slabs: [{name: a, device: /dev/a, durability: relaxed, verify: off}]", nil, []string{`slabs[0].verify: off together with durability relaxed`}},
		{"inflight", "slabs: [{name: a, device: /dev/a, inflight_bytes: 128MiB}]", nil, []string{`slabs[0].inflight_bytes: 128MiB is too small: want at least 256MiB`}},
		{"inflight and payload", short + "limits: {payload: 1GiB, stream_bytes: 2GiB}", nil, []string{`slabs[0].inflight_bytes: 256MiB is too small: want at least 2GiB`}},
		{"io_size", "slabs: [{name: a, device: /dev/a, io_size: 1536KiB}]", nil, []string{`slabs[0].io_size: 1536KiB is not allowed: want a multiple of 1MiB`}},
		{"slot_size", "slabs: [{name: a, device: /dev/a, slot_size: 5KiB}]", nil, []string{`slabs[0].slot_size: 5KiB is not allowed`}},
		{"slab twice", "slabs: [{name: a, device: /dev/a}, {name: a, device: /dev/../dev/a}]", nil, []string{`slabs[1].name: "a" is also the name of slabs[0]`, `slabs[1].device: "/dev/../dev/a" is also the device of slabs[0]`}},
		{"slab without name", "slabs: [{device: /dev/a}]", nil, []string{`slabs[0].name: "" is no name`}},
		{"unknown slab", short + "namespaces: [{name: n, slabs: [b]}]", nil, []string{`namespaces[0].slabs[0]: "b" is not a slab: known are a`}},
		{"no slab", short + "namespaces: [{name: n}]", nil, []string{`namespaces[0].slabs: names no slab`}},
		{"namespace twice", short + "namespaces: [{name: n, slabs: [a]}, {name: n, slabs: [a]}]", nil, []string{`namespaces[1].name: "n" is also the name of namespaces[0]`}},
		{"slash in a namespace", short + "namespaces: [{name: a/b, slabs: [a]}]", nil, []string{`namespaces[0].name: "a/b" is no name`}},
		{"quota below a slot", short + "namespaces: [{name: n, slabs: [a], quota: 1MiB}]", nil, []string{`namespaces[0].quota: 1MiB is less than one slot of a (slot_size 2MiB)`}},
		{"beyond loopback", short + "listen: {http: '0.0.0.0:9200'}", nil, []string{`listen.http: "0.0.0.0:9200" is reachable from beyond this host, which needs auth.token_file`}},
		{"admin beyond loopback", short + "listen: {admin: ':9201'}", nil, []string{`listen.admin: ":9201" is reachable`}},
		{"a name beyond loopback", short + "listen: {http: 'host.example:9200'}", nil, []string{`listen.http`}},
		{"no port", short + "listen: {http: 127.0.0.1}", nil, []string{`listen.http: "127.0.0.1" is no address: want host:port`}},
		{"bad port", short + "listen: {http: '127.0.0.1:99999'}", nil, []string{`want 0 to 65535`}},
		{"one port for two", short + "listen: {admin: '127.0.0.1:9200'}", nil, []string{`listen.admin: "127.0.0.1:9200" is also listen.http`}},
		{"no listener", short + "listen: {http: '', unix: ''}", nil, []string{`listen: unix and http are both off`}},
		{"long socket path", short + "listen: {unix: /" + strings.Repeat("x", 110) + "}", nil, []string{`a socket's path has at most 103`}},
		{"watermarks", short + "eviction: {high_watermark: 0.5, low_watermark: 0.6}", nil, []string{`eviction: eviction is not in this release`, `eviction.low_watermark: 0.6 is out of range`}},
		{"lease times", short + "leases: {default_ttl: 1h}", nil, []string{`leases.max_ttl: 10m0s is less than leases.default_ttl (1h0m0s)`}},
		{"stream_bytes", short + "limits: {stream_bytes: 255MiB}", nil, []string{`limits.stream_bytes: 255MiB is too small: want at least 256MiB`}},
		{"json_bytes", short + "limits: {json_bytes: 48MiB}", nil, []string{`limits.json_bytes: 48MiB is too small: want at least 49MiB, which a batch of limits.batch_keys (16384) can take`}},
		{"json_bytes and batch_keys", short + "limits: {batch_keys: 1000000}", nil, []string{`limits.json_bytes: 256MiB is too small`}},
		{"requests", short + "limits: {requests: 0}", nil, []string{`limits.requests: 0 is out of range: want 1 to 1048576`}},
		{"slow", short + "log: {slow: 1}", nil, []string{`log.slow: "1" is not a duration`}},
		{"certificate alone", short + "tls: {cert_file: /c}", nil, []string{`tls: cert_file and key_file belong together`}},
		{"relative files", short + "tls: {cert_file: c, key_file: k}\nauth: {token_file: t}", nil, []string{`line 2: tls.cert_file: "c" is relative`, `line 2: tls.key_file: "k" is relative`, `line 3: auth.token_file: "t" is relative`}},

		{"engine", "slabs: [{name: a, device: /dev/a, engine: io_uring}]", nil, []string{`slabs[0].engine: "io_uring" is not allowed: want auto, pread, uring`}},
		{"discard", "slabs: [{name: a, device: /dev/a, discard: on_free}]", nil, []string{`slabs[0].discard: discard is not in this release`}},
		{"queue depth", "slabs: [{name: a, device: /dev/a, queue_depth: 4097}, {name: b, device: /dev/b, queue_depth: 0}]", nil, []string{`slabs[0].queue_depth: 4097 is out of range: want 1 to 4096`, `slabs[1].queue_depth: 0 is out of range`}},
		{"lease listener", short + "listen: {lease: {addr: '10.0.0.1:9300', allow_cidrs: [10.0.0.0/33, 10.0.0.1, '::ffff:10.0.0.0/104', 10.1.2.3/8], namespaces: [x]}}", nil, []string{
			`listen.lease.namespaces[0]: "x" is not one`,
			`listen.lease.allow_cidrs[0]: "10.0.0.0/33" is no address range`,
			`listen.lease.allow_cidrs[1]: "10.0.0.1" is no address range`,
			`listen.lease.allow_cidrs[2]: "::ffff:10.0.0.0/104" is an IPv4 range written as IPv6`,
			`listen.lease.allow_cidrs[3]: "10.1.2.3/8" has bits behind its prefix: write 10.0.0.0/8 for the whole range, or 10.1.2.3/32`,
		}},
		{"lease listener for nobody", short + "listen: {lease: {addr: '127.0.0.1:9300'}}", nil, []string{`listen.lease.namespaces: names no namespace, so the listener would serve nothing`}},
		{"no lease listener", short + "listen: {lease: {namespaces: [default]}}", nil, []string{`listen.lease: allow_cidrs and namespaces have no effect`}},
		{"lease listener on a port taken", short + "listen: {lease: {addr: '127.0.0.1:9201', namespaces: [default]}}", nil, []string{`listen.lease.addr: "127.0.0.1:9201" is also listen.admin`}},
		{"lease address", short + "listen: {lease: {addr: '9300', namespaces: [default]}}", nil, []string{`listen.lease.addr: "9300" is no address`}},
		{"segment", short + "namespaces: [{name: n, slabs: [a], segment: {name: x, size: 1GiB}}]", nil, []string{`namespaces[0].segment: the staging segment is not in this release`}},
		{"min_hits", short + "namespaces: [{name: n, slabs: [a], min_hits: 2}]", nil, []string{`namespaces[0].min_hits: admission by hits`}},
		{"shm", short + "shm: {dirs: [/tmp], max_bytes: 1GiB}", nil, []string{`shm.dirs: shared memory`, `shm.max_bytes: shared memory`}},

		{"env unit", short, []string{"RAWBLOCKD_META_CACHE_SIZE=64M"}, []string{`meta.cache_size (from $RAWBLOCKD_META_CACHE_SIZE): "64M" has the unknown unit "M"`}},
		{"env value", short, []string{"RAWBLOCKD_LOG_LEVEL=loud"}, []string{`log.level (from $RAWBLOCKD_LOG_LEVEL): "loud" is not allowed`}},
		{"env key", short, []string{"RAWBLOCKD_LOG_LEVLE=info"}, []string{`$RAWBLOCKD_LOG_LEVLE, which names no key`}},
		{"env list", short, []string{"RAWBLOCKD_SLABS=[{name: a, devcie: /dev/a}]"}, []string{`slabs[0].devcie (from $RAWBLOCKD_SLABS): unknown key: did you mean "device"?`}},
		{"env list, later", short, []string{"RAWBLOCKD_SLABS=[{name: a, device: x}]"}, []string{`slabs[0].device (from $RAWBLOCKD_SLABS): "x" is relative`}},
		{"env list, no YAML", short, []string{"RAWBLOCKD_SLABS=[{"}, []string{`slabs (from $RAWBLOCKD_SLABS): want a list as YAML`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := loadText(t, tt.text, tt.env...)
			if err == nil {
				t.Fatalf("loaded: %+v", c)
			}
			for _, w := range tt.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("got  %v\nwant %s", err, w)
				}
			}
			var all *Error
			if errors.As(err, &all) && tt.name != "all at once" && len(all.Faults) != len(tt.want) {
				t.Errorf("got %d faults, want %d:\n%v", len(all.Faults), len(tt.want), err)
			}
		})
	}
}

func TestLoopbackIsFree(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "127.9.9.9:1", "[::1]:9200", "localhost:9200", "[::ffff:127.0.0.1]:9200"} {
		mustLoad(t, short+"listen: {http: '"+addr+"'}\n")
	}
}
