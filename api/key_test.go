// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestCheckKey(t *testing.T) {
	for name, c := range map[string]struct {
		key string
		ok  bool
	}{
		"plain":            {"model@1@0@abcdef", true},
		"dot":              {".", true},
		"dots":             {"..", true},
		"slash":            {"a/b", true},
		"space":            {"a b", true},
		"non-ASCII":        {"ключ", true},
		"longest":          {strings.Repeat("k", 1024), true},
		"longest, 2 bytes": {strings.Repeat("é", 512), true},
		"replacement char": {"\ufffd", true},
		"empty":            {"", false},
		"1,025 bytes":      {strings.Repeat("k", 1025), false},
		"byte ff":          {"a\xff", false},
		"byte fe":          {"\xfe", false},
		"encoded lone":     {"\xed\xa0\x80", false},
		"newline":          {"a\nb", false},
		"NUL":              {"a\x00", false},
		"DEL":              {"a\x7f", false},
		"C1":               {"a\u0085", false},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckKey(c.key)
			if (err == nil) != c.ok {
				t.Fatalf("got %v, want ok %v", err, c.ok)
			}
			var p *Problem
			if err != nil && (!errors.As(err, &p) || p.Code != string(StatusInvalidKey) || p.Status != 400) {
				t.Errorf("got %#v, want a problem with code invalid_key", err)
			}
		})
	}
}

// What the client sends for a key that is not UTF-8 must not be another key.
func TestKeysMarshal(t *testing.T) {
	in := Keys{"a", "\xff", "\xfe", "q\"\\\n\x00\x7f", "ключ", "<&>"}
	b, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	for i, want := range []string{"a", "", "", "q\"\\\n\x00\x7f", "ключ", "<&>"} {
		if out[i] != want {
			t.Errorf("key %d: got %q, want %q", i, out[i], want)
		}
	}
	if b, _ := json.Marshal(UnpinRequest{Namespace: "n", Lease: "l"}); strings.Contains(string(b), "keys") {
		t.Errorf("got %s, want no keys", b)
	}
	if b, _ := json.Marshal(UnpinRequest{Namespace: "n", Lease: "l", Keys: Keys{}}); !strings.Contains(string(b), `"keys":[]`) {
		t.Errorf("got %s, want an empty list of keys", b)
	}
}

func TestCheckPath(t *testing.T) {
	for path, ok := range map[string]bool{
		"/":                        true,
		"/v1/kv/ns/key":            true,
		"/v1/kv/ns/a%2Fb":          true,
		"/v1/kv/ns/a%252Fb":        true,
		"/v1/kv/ns/a+b@c%2B%25":    true,
		"/v1/kv/ns/...":            true,
		"/v1/kv/ns/%2F..%2F":       true, // one segment, decoded once: a key like any
		"/v1/kv/ns/":               false,
		"/v1/kv//key":              false,
		"//v1/kv/ns/key":           false,
		"/v1/kv/ns/.":              false,
		"/v1/kv/ns/..":             false,
		"/v1/kv/ns/%2e":            false,
		"/v1/kv/ns/%2E%2e":         false,
		"/v1/kv/ns/.%2E/other/key": false,
		"/v1/kv/ns/%zz":            false,
		"":                         false,
		"*":                        false,
		"v1/kv":                    false,
	} {
		err := CheckPath(path)
		if (err == nil) != ok {
			t.Errorf("%q: got %v, want ok %v", path, err, ok)
		}
	}
}

func TestObjectPath(t *testing.T) {
	const want = "/v1/kv/my%20ns/a%2Fb+c@d%25"
	if got := ObjectPath("my ns", "a/b+c@d%"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestBadEscape(t *testing.T) {
	for in, want := range map[string]string{"": "", "a%2Fb%25": "", "%zz": "%zz", "a%2F%4": "%4", "%": "%", "%2%F0": "%2%", "%ff%\xff\xff": "%"} {
		if got := BadEscape(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
