// SPDX-License-Identifier: Apache-2.0

package tokens

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// secret is what no error may repeat.
const secret = "a-secret-token-of-some-length"

func TestFaults(t *testing.T) {
	line := func(rest string) string { return "- {name: a, token: " + secret + ", " + rest + "}" }
	for name, tt := range map[string]struct {
		text string
		want []string // each is one fault
	}{
		"empty":             {"", []string{"holds no token"}},
		"only a comment":    {"# nothing\n", []string{"holds no token"}},
		"empty list":        {"[]", []string{"line 1: holds no token"}},
		"no list":           {"a: " + secret, []string{"line 1: want a list"}},
		"bare token":        {"- " + secret, []string{"line 1: [0]: want a section with the keys"}},
		"token as a key":    {"- {" + secret + ": [n]}", []string{"[0]: an unknown key", "[0].name: is missing", "[0].token: is missing"}},
		"unknown key":       {line("namespaces: [n], expires: never"), []string{"[0]: an unknown key: want name"}},
		"repeated key":      {line("namespaces: [n], name: b"), []string{"[0].name: is here twice"}},
		"key in caps":       {line("Namespaces: [n]"), []string{"[0]: an unknown key"}},
		"no name":           {"- {token: " + secret + ", namespaces: [n]}", []string{"[0].name: is missing"}},
		"bad name":          {"- {name: 'a b', token: " + secret + ", namespaces: [n]}", []string{"[0].name: is no name"}},
		"name of no value":  {"- {name: , token: " + secret + ", namespaces: [n]}", []string{"[0].name: want a single value"}},
		"no token":          {"- {name: a, namespaces: [n]}", []string{"[0].token: is missing: want it, or sha256"}},
		"both":              {line("sha256: " + sum(secret) + ", namespaces: [n]"), []string{"[0].sha256: is there beside token"}},
		"short token":       {"- {name: a, token: fifteen-bytes-x, namespaces: [n]}", []string{"[0].token: has 15 bytes, which can be guessed: want 16"}},
		"long token":        {"- {name: a, token: " + strings.Repeat("x", MaxBytes+1) + ", namespaces: [n]}", []string{"[0].token: has 4097 bytes: want at most 4096"}},
		"space in a token":  {"- {name: a, token: 'a token with spaces', namespaces: [n]}", []string{"[0].token: has characters that no header carries"}},
		"umlaut in a token": {"- {name: a, token: tökentökentöken, namespaces: [n]}", []string{"[0].token: has characters"}},
		"no hash":           {"- {name: a, sha256: " + secret + ", namespaces: [n]}", []string{"[0].sha256: is no SHA-256: want 64 hex digits"}},
		"half a hash":       {"- {name: a, sha256: " + sum(secret)[:62] + ", namespaces: [n]}", []string{"[0].sha256: is no SHA-256"}},
		"no right":          {"- {name: a, token: " + secret + "}", []string{"[0].namespaces: is missing, so the token would give no right"}},
		"empty right":       {line("namespaces: []"), []string{"[0].namespaces: want a list of namespaces"}},
		"one namespace":     {line("namespaces: n"), []string{"[0].namespaces: want a list of namespaces"}},
		"star and more":     {line("namespaces: [a, '*']"), []string{`[0].namespaces[1]: "*" stands for all`}},
		"bad namespace":     {line("namespaces: [a/b]"), []string{"[0].namespaces[0]: is no namespace"}},
		"namespace twice":   {line("namespaces: [a, a]"), []string{`[0].namespaces[1]: "a" is listed twice`}},
		"admin":             {line("namespaces: [n], admin: yes"), []string{"[0].admin: want true or false"}},
		"name twice":        {line("namespaces: [n]") + "\n- {name: a, token: another-token-0000, namespaces: [n]}", []string{`line 2: [1].name: "a" is also the name of [0]`}},
		"token twice":       {line("namespaces: [n]") + "\n- {name: b, token: " + secret + ", namespaces: [n]}", []string{"line 2: [1].token: is the same token as that of [0]"}},
		"token twice, once as a hash": {
			line("namespaces: [n]") + "\n- {name: b, sha256: " + sum(secret) + ", namespaces: [n]}",
			[]string{"line 2: [1].sha256: is the same token as that of [0]"},
		},
		"alias":         {"- &x {name: a, token: " + secret + ", namespaces: [n]}\n- *x", []string{"line 2: [1]: want a section"}},
		"unknown alias": {"- {name: a, token: *" + secret + ", namespaces: [n]}", []string{"is no well-formed YAML"}},
		"no YAML":       {"- {name: a\n  token: [" + secret, []string{"is no well-formed YAML: put tokens in quotes"}},
		"tab":           {"- name: a\n\ttoken: " + secret, []string{"line 2: is no well-formed YAML"}},
		"two documents": {line("namespaces: [n]") + "\n---\n[]", []string{"line 2: a second YAML document"}},
		"all at once": {
			"- {name: '', token: x, namespaces: []}\n- {admin: maybe}",
			[]string{"[0].name: is no name", "[0].token: has 1 bytes", "[0].namespaces: want", "[1].name: is missing", "[1].token: is missing", "[1].admin: want"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("/etc/tokens.yaml", []byte(tt.text))
			var all *Error
			if !errors.As(err, &all) || !strings.HasPrefix(err.Error(), "token file /etc/tokens.yaml: ") {
				t.Fatalf("got %v", err)
			}
			if len(all.Faults) != len(tt.want) {
				t.Errorf("got %d faults, want %d: %v", len(all.Faults), len(tt.want), err)
			}
			for i, w := range tt.want {
				if i < len(all.Faults) && !strings.Contains(all.Faults[i].String(), w) {
					t.Errorf("fault %d: got %v, want %s", i, all.Faults[i], w)
				}
			}
			if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), sum(secret)) || strings.Contains(err.Error(), "\n") {
				t.Errorf("repeats a token, or has several lines: %v", err)
			}
		})
	}
}

// Whatever a token looks like to a YAML reader, it is what was written.
func TestTokensAsWritten(t *testing.T) {
	for _, token := range []string{"1234567890123456", "0x1234567890abcdef", "1e1000000000000000", "2026-01-01T00:00:00Z", "'single-quoted-token'", `"double-quoted-token"`} {
		s := mustParse(t, "- {name: a, token: "+token+", namespaces: [n]}")
		if want := strings.Trim(token, `'"`); s.Find(want) == nil {
			t.Errorf("%s: not found", token)
		}
	}
}

// No text makes the reader do anything but return.
func FuzzParse(f *testing.F) {
	f.Add([]byte(good()))
	f.Add([]byte("- {name: a, token: " + secret + "}\n- *x"))
	f.Add([]byte("- &a [*a]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Parse("t", text)
		if (s == nil) == (err == nil) {
			t.Errorf("got %v, %v", s, err)
		}
		if s != nil && s.Len() == 0 {
			t.Error(fmt.Sprint("a set of no tokens from ", string(text)))
		}
	})
}
