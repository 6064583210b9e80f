// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestDocs: docs/configuration.md has a row for every key, in the order of the
// struct, with its default, and no other row.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z0-9_.\\[\\]]+)` \\| (.*?) ?\\| .+ \\|$").FindAllStringSubmatch(string(text), -1) {
		got = append(got, m[1]+" "+strings.Trim(m[2], "`"))
	}
	var want []string
	for _, l := range leaves("", reflect.ValueOf(Default()).Elem()) {
		switch l.path {
		case "slabs":
			want = append(want, rows(t, "slabs[]", DefaultSlab())...)
		case "namespaces":
			want = append(want, rows(t, "namespaces[]", DefaultNamespace())...)
		default:
			want = append(want, row(t, l))
		}
	}
	for i := range max(len(got), len(want)) {
		g, w := "", ""
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Fatalf("row %d: the document says %q, want %q", i, g, w)
		}
	}
}

func rows(t *testing.T, prefix string, section any) []string {
	t.Helper()
	var out []string
	for _, l := range leaves(prefix, reflect.ValueOf(section)) {
		out = append(out, row(t, l))
	}
	return out
}

func row(t *testing.T, l leaf) string {
	t.Helper()
	var n yaml.Node
	if err := n.Encode(l.value); err != nil {
		t.Fatal(err)
	}
	if n.Kind == yaml.ScalarNode {
		return l.path + " " + n.Value
	}
	var all []string
	for _, c := range n.Content {
		all = append(all, c.Value)
	}
	return l.path + " [" + strings.Join(all, ", ") + "]"
}

// TestDocsExample: what the document shows as a file is one.
func TestDocsExample(t *testing.T) {
	text, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```yaml\n")
	example, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("no example")
	}
	mustLoad(t, example)
}
