// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"strings"
	"testing"
)

// TestFaultsOfBothKinds: what cannot be read and what is read and wrong are told at
// once, in the order of the file; what only follows from the first is not told.
func TestFaultsOfBothKinds(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		env  []string
		want []string // all there are, in this order
	}{
		"each": {"log: {level: loud}\nleases: {max_pinned: 2, max_ttl: soon}\nslabs:\n- {name: a, device: x, workers: many}\n", nil, []string{
			`line 1: log.level: "loud"`, `line 2: leases.max_ttl: "soon"`, `line 2: leases.max_pinned: 2 is out of range`,
			`line 4: slabs[0].workers: "many"`, `line 4: slabs[0].device: "x" is relative`,
		}},
		"compared with what cannot be read": {short + "limits: {payload: 1M, stream_bytes: 16MiB}\nleases: {default_ttl: 5, max_ttl: 1s}\n", nil, []string{
			`line 2: limits.payload: "1M"`, `line 3: leases.default_ttl: "5"`,
		}},
		"misspelt": {"slabs: [{name: a, devcie: /dev/a}]\nmeta: {path: x}\n", nil, []string{
			`line 1: slabs[0].devcie: unknown key: did you mean "device"?`, `line 2: meta.path: "x" is relative`,
		}},
		"an element between others": {"slabs:\n- {name: a, device: /dev/a}\n- b\n- {name: c, device: x}\nnamespaces:\n- {name: n, slabs: [a, b], ttl: 5}\n", nil, []string{
			`line 3: slabs[1]: want a section`, `line 4: slabs[2].device: "x" is relative`, `line 6: namespaces[0].ttl: "5" is not a duration`,
		}},
		"no list of slabs": {"slabs: x\nnamespaces: [{name: n, slabs: [a]}]\nlog: {slow: 1}\n", nil, []string{`line 1: slabs: want a list`, `line 3: log.slow: "1"`}},
		"variables": {"slabs: [{name: a, device: x}]\n", []string{"RAWBLOCKD_LOG_SLOW=1", "RAWBLOCKD_LOG_LEVLE=info"}, []string{
			`log.slow (from $RAWBLOCKD_LOG_SLOW)`, `$RAWBLOCKD_LOG_LEVLE`, `slabs[0].device: "x" is relative`,
		}},
		"two documents": {"slabs: [{name: a, device: x}]\n---\nlog: {}\n", nil, []string{`line 1: slabs[0].device`, `line 2: a second YAML document begins here`}},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := loadText(t, tt.text, tt.env...)
			var all *Error
			if c != nil || !errors.As(err, &all) {
				t.Fatalf("got %+v, %v", c, err)
			}
			text := err.Error()
			for _, w := range tt.want {
				_, after, ok := strings.Cut(text, w)
				if !ok && !strings.Contains(err.Error(), w) {
					t.Errorf("got %v\nwant %s", err, w)
				} else if !ok && len(tt.env) == 0 {
					t.Errorf("%s is not in the order of the file: %v", w, err)
				} else if ok {
					text = after
				}
			}
			if len(all.Faults) != len(tt.want) {
				t.Errorf("got %d faults, want %d: %v", len(all.Faults), len(tt.want), err)
			}
		})
	}
}

// TestSyntax: what is no YAML is told with its line, whatever the reader says.
func TestSyntax(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"first line":        {"slabs: [", "line 1: it is no YAML: did not find expected node content"},
		"tab":               {short + "log:\n\tlevel: info\n", "line 3: it is no YAML: found character that cannot start any token"},
		"colon":             {short + "log:\n  level: a: b\n", "line 3: it is no YAML: mapping values are not allowed"},
		"no UTF-8":          {short + "log:\n  level: \xff\n", "line 3: it is no YAML: "},
		"control character": {short + "\nlog: {level: \x01}\n", "line 3: it is no YAML: control characters are not allowed"},
		"anchor":            {short + "\n\nlog: *base\n", "line 4: it is no YAML: unknown anchor 'base'"},
		"second document":   {short + "---\n[\n", "it is no YAML"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := loadText(t, tt.text)
			if err == nil || !strings.HasPrefix(err.Error(), "configuration test.yaml: ") || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}
