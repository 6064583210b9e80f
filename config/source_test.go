// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func annotated(t *testing.T, text string, environ ...string) string {
	t.Helper()
	c, from, err := merge(Default(), "/etc/a b.yaml", []byte(text), environ)
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.Annotated(from)
	if err != nil {
		t.Fatal(err)
	}
	again := mustLoad(t, string(out))
	if diff := cmp.Diff(c, again); diff != "" {
		t.Errorf("annotated and read again (-want +got):\n%s\n%s", diff, out)
	}
	return string(out)
}

// TestSources: a value's line says whether it is a default, and else the line
// of the file or the variable that has the last word.
func TestSources(t *testing.T) {
	text := strings.Join([]string{
		"log: {level: warn}", // 1
		"slabs:",
		"- name: a", // 3
		"  device: /dev/a",
		"- {name: b, device: /dev/b, workers: 4}", // 5
		"namespaces:",
		"- {name: n, slabs: [a,", // 7
		"   b]}",
		"shm:", // empty
		"limits:",
		"  requests: 7", // 11
	}, "\n")
	out := annotated(t, text, "RAWBLOCKD_LOG_FORMAT=json", "RAWBLOCKD_LIMITS_REQUESTS=9")
	for _, want := range []string{
		"level: warn # /etc/a b.yaml:1\n",
		"format: json # $RAWBLOCKD_LOG_FORMAT\n",
		"slow: 1s # default\n",
		"- name: a # /etc/a b.yaml:3\n",
		"device: /dev/a # /etc/a b.yaml:4\n",
		"workers: 32 # default\n",
		"workers: 4 # /etc/a b.yaml:5\n",
		"- a # /etc/a b.yaml:7\n",
		"- b # /etc/a b.yaml:8\n",
		"- /dev/shm # default\n",
		"allow_cidrs: [] # default\n",
		"requests: 9 # $RAWBLOCKD_LIMITS_REQUESTS\n",
		`unix_mode: "0660" # default` + "\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	for line := range strings.Lines(out) {
		leaf := !strings.HasSuffix(line, ":\n")
		if leaf != strings.Contains(line, " # ") {
			t.Errorf("every value has a source, no section has one: got %q", line)
		}
	}
}

// TestSourceOfLists: a list from a variable replaces the file's whole list, so
// nothing in it is the file's.
func TestSourceOfLists(t *testing.T) {
	out := annotated(t, "slabs:\n- {name: a, device: /dev/a, workers: 4}\n- {name: b, device: /dev/b}\n",
		"RAWBLOCKD_SLABS=[{name: c, device: /dev/c}]", "RAWBLOCKD_LISTEN_LEASE_ALLOW_CIDRS=", "RAWBLOCKD_NAMESPACES=[]")
	out, _, _ = strings.Cut(out, "limits:")
	if strings.Contains(out, "b.yaml") {
		t.Errorf("names the file, of which nothing is left:\n%s", out)
	}
	for _, want := range []string{"- name: c # $RAWBLOCKD_SLABS\n", "workers: 32 # default\n", "- name: default # default\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestSourceInAFileWithAStrangeName(t *testing.T) {
	if got, want := (Source{File: "a\nb", Line: 3}).String(), `"a\nb":3`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestJSON: one object with the same keys and texts, which loads.
func TestJSON(t *testing.T) {
	want := mustLoad(t, example+"\n", "RAWBLOCKD_LISTEN_UNIX_GROUP=\"a\\b\u0085\u007f\tc\U0001F600\"")
	out, err := want.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, mustLoad(t, string(out))); diff != "" {
		t.Errorf("printed and read again (-want +got):\n%s\n%s", diff, out)
	}
	var v struct {
		Listen map[string]any
		Meta   map[string]any
		Slabs  []map[string]any
		Limits map[string]any
	}
	if err := json.Unmarshal(out, &v); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintln(v.Listen["unix_mode"], v.Listen["unix_group"], v.Meta["cache_size"], v.Slabs[0]["workers"], v.Limits["request_deadline"])
	if w := "0660 \"a\\b\u0085\u007f\tc\U0001F600\" 64MiB 32 1m0s\n"; got != w {
		t.Errorf("got %q, want %q", got, w)
	}
}

// TestEveryVariable gives every key there is another value by its variable.
func TestEveryVariable(t *testing.T) {
	give := map[string]string{
		"listen.unix": "/run/x.sock", "listen.unix_mode": "0600", "listen.unix_group": "kv", "listen.http": "127.0.0.1:1",
		"listen.admin": "127.0.0.1:2", "listen.lease.addr": "10.0.0.1:3", "listen.lease.allow_cidrs": "[10.0.0.0/8]",
		"listen.lease.namespaces": "[n]", "auth.token_file": "/t", "tls.cert_file": "/c", "tls.key_file": "/k",
		"meta.path": "/m", "meta.cache_size": "65MiB", "meta.min_free": "1GiB",
		"slabs": "[{name: a, device: /dev/a}]", "namespaces": "[{name: n, slabs: [a]}]",
		"eviction.high_watermark": "0.8", "eviction.low_watermark": "0.7",
		"leases.default_ttl": "1s", "leases.max_ttl": "1h", "leases.max_pinned": "0.1", "shm.dirs": "[/x, /y]", "shm.max_bytes": "1GB",
		"limits.batch_keys": "3", "limits.payload": "1MiB", "limits.stream_bytes": "1GiB", "limits.json_bytes": "1TiB",
		"limits.requests": "5", "limits.request_deadline": "2s", "log.level": "debug", "log.format": "json", "log.slow": "0s",
	}
	names := map[string]bool{}
	for _, l := range leaves("", reflect.ValueOf(Default()).Elem()) {
		if names[l.env()] {
			t.Errorf("two keys have the variable %s", l.env())
		}
		names[l.env()] = true
		text, ok := give[l.path]
		if !ok {
			t.Errorf("%s is not tested: give it a value here", l.path)
			continue
		}
		w := &walker{lines: map[string]int{}, given: Sources{}}
		c, _, err := w.decode(Default(), []byte("log: {level: warn}"), []string{l.env() + "=" + text})
		if err != nil {
			t.Errorf("%s=%s: %v", l.env(), text, err)
			continue
		}
		if got, want := w.given[l.path].String(), "$"+l.env(); got != want {
			t.Errorf("%s: source %s, want %s", l.path, got, want)
		}
		if reflect.DeepEqual(leafOf(t, c, l.path), leafOf(t, Default(), l.path)) {
			t.Errorf("%s=%s: the value is the default", l.env(), text)
		}
	}
}

func leafOf(t *testing.T, c *Config, path string) any {
	t.Helper()
	for _, l := range leaves("", reflect.ValueOf(c).Elem()) {
		if l.path == path {
			return l.value
		}
	}
	t.Fatalf("no key %s", path)
	return nil
}

// TestVariablesCount: the values arrive, lists replace lists.
func TestVariablesCount(t *testing.T) {
	c := mustLoad(t, short+"shm: {dirs: [/dev/shm]}\nlimits: {batch_keys: 1, payload: 2MiB}\n",
		"RAWBLOCKD_LIMITS_BATCH_KEYS=3", "RAWBLOCKD_LIMITS_PAYLOAD=1MiB", "RAWBLOCKD_LIMITS_STREAM_BYTES=1GiB",
		"RAWBLOCKD_LIMITS_JSON_BYTES=1TiB", "RAWBLOCKD_LIMITS_REQUESTS=5", "RAWBLOCKD_LIMITS_REQUEST_DEADLINE=2s",
		"RAWBLOCKD_LOG_SLOW=0s", "RAWBLOCKD_SHM_DIRS=[/dev/shm]",
	)
	want := Limits{BatchKeys: 3, Payload: MiB, StreamBytes: GiB, JSONBytes: TiB, Requests: 5, RequestDeadline: 2 * time.Second}
	if c.Limits != want || c.Log.Slow != 0 {
		t.Errorf("got %+v and log.slow %v, want %+v and 0", c.Limits, c.Log.Slow, want)
	}
}

func TestBadVariables(t *testing.T) {
	for _, tt := range []struct{ env, want string }{
		{"RAWBLOCKD_LISTEN_UNIX_GROUP=\xff", `listen.unix_group (from $RAWBLOCKD_LISTEN_UNIX_GROUP): "\xff" is not valid UTF-8`},
		{"RAWBLOCKD_SLABS=~", `slabs (from $RAWBLOCKD_SLABS): is null: write [] for an empty list`},
		{"RAWBLOCKD_LIMITS_REQUESTS=", `limits.requests (from $RAWBLOCKD_LIMITS_REQUESTS): "" is not a whole number`},
		{"RAWBLOCKD_LIMITS_JSON_BYTES=1MB", `limits.json_bytes (from $RAWBLOCKD_LIMITS_JSON_BYTES): 1000000 is too small`},
		{"RAWBLOCKD_LIMITS_REQUEST=1", `$RAWBLOCKD_LIMITS_REQUEST, which names no key`},
	} {
		if _, err := loadText(t, short, tt.env); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %s", tt.env, err, tt.want)
		}
	}
}
