// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// walker goes through YAML nodes along the types of Config. It collects faults
// and lines and returns plain values in which every scalar is text exactly as
// it was written, so that no YAML reader's idea of `off` or `0660` survives.
type walker struct {
	file   string // for people
	faults faults
	lines  map[string]int // of every path that the file names
	given  Sources        // of every value that counts
	env    string         // set while a variable's value is walked: its lines mean nothing
	depth  int
	meant  []string // keys that are written wrongly, as they may have been meant
}

// maxDepth is far above what Config needs; it ends an alias that contains
// itself.
const maxDepth = 16

func (w *walker) fault(n *yaml.Node, path, format string, args ...any) {
	f := Fault{Path: path, Env: w.env, Msg: fmt.Sprintf(format, args...)}
	if w.env == "" {
		f.Line = n.Line
	}
	w.faults = append(w.faults, f)
}

// value walks n as a value of type t. ok is false when the key counts as not
// given: it is empty, or it was reported.
func (w *walker) value(n *yaml.Node, path string, t reflect.Type) (v any, ok bool) {
	w.depth++
	defer func() { w.depth-- }()
	if w.depth > maxDepth {
		w.fault(n, path, "nested too deeply")
		return nil, false
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if w.env == "" {
		w.lines[path] = n.Line
	}
	switch t.Kind() {
	case reflect.Struct:
		return w.section(n, path, t)
	case reflect.Slice:
		v, ok = w.list(n, path, t.Elem())
	default:
		v, ok = w.scalar(n, path, t)
	}
	if ok {
		w.set(path, n.Line)
	}
	return v, ok
}

func (w *walker) section(n *yaml.Node, path string, t reflect.Type) (any, bool) {
	if isNull(n) {
		return nil, false
	}
	if n.Kind != yaml.MappingNode {
		w.fault(n, path, "want a section with the keys %s, got %s", keyList(t), describe(n))
		return nil, false
	}
	known := fieldsOf(t)
	out := make(map[string]any, len(known))
	seen := map[string]*yaml.Node{} // by lower-cased key
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		full := joinPath(path, key.Value)
		if w.repeated(key, full, seen) {
			continue
		}
		f, ok := findField(known, key)
		if !ok {
			near, text := hint(known, key.Value)
			if near != "" {
				w.meant = append(w.meant, joinPath(path, near))
			}
			w.fault(key, full, "unknown key%s", text)
			continue
		}
		if v, ok := w.value(val, full, f.typ); ok {
			out[f.key] = v
		}
	}
	return out, true
}

// repeated reports a key that was there before, perhaps in another case.
func (w *walker) repeated(key *yaml.Node, full string, seen map[string]*yaml.Node) bool {
	low := strings.ToLower(key.Value)
	first, dup := seen[low]
	switch {
	case !dup:
		seen[low] = key
		return false
	case first.Value == key.Value:
		w.fault(key, full, "the key is here twice, first on line %d: remove one", first.Line)
	default:
		w.fault(key, full, "differs only in case from %q on line %d: keys are lower case, remove one", first.Value, first.Line)
	}
	return true
}

func (w *walker) list(n *yaml.Node, path string, elem reflect.Type) (any, bool) {
	if isNull(n) {
		return nil, false
	}
	if n.Kind != yaml.SequenceNode {
		w.fault(n, path, "want a list, got %s", describe(n))
		return nil, false
	}
	out := make([]any, 0, len(n.Content))
	for i, c := range n.Content {
		v, ok := w.value(c, fmt.Sprintf("%s[%d]", path, i), elem)
		if ok {
			out = append(out, v)
			continue
		}
		if isNull(c) {
			w.fault(c, fmt.Sprintf("%s[%d]", path, i), "the list has an empty element: remove it")
		}
		out = append(out, blank(elem)) // or those behind it would get its number
	}
	return out, true
}

// blank stands for an element of a list that could not be read.
func blank(elem reflect.Type) any {
	if elem.Kind() == reflect.Struct {
		return map[string]any{}
	}
	return ""
}

func (w *walker) scalar(n *yaml.Node, path string, t reflect.Type) (any, bool) {
	if n.Kind != yaml.ScalarNode {
		w.fault(n, path, "want a single value, got %s", describe(n))
		return nil, false
	}
	if isNull(n) {
		w.fault(n, path, `has no value: remove the key for the default, or write "" where empty is allowed`)
		return nil, false
	}
	if _, err := parseScalar(t, n.Value); err != nil {
		w.fault(n, path, "%v", err)
		return nil, false
	}
	return n.Value, true
}

func findField(known []field, key *yaml.Node) (field, bool) {
	for _, f := range known {
		if key.Kind == yaml.ScalarNode && f.key == key.Value {
			return f, true
		}
	}
	return field{}, false
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a section"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	return fmt.Sprintf("%q", n.Value)
}

func keyList(t reflect.Type) string {
	var keys []string
	for _, f := range fieldsOf(t) {
		keys = append(keys, f.key)
	}
	return strings.Join(keys, ", ")
}

// hint proposes the known key that is nearest to what was written; best is "" where
// none is.
func hint(known []field, got string) (best, text string) {
	dist := 3
	var keys []string
	for _, f := range known {
		keys = append(keys, f.key)
		if d := editDistance(strings.ToLower(got), f.key); d < dist {
			best, dist = f.key, d
		}
	}
	if best != "" {
		return best, fmt.Sprintf(": did you mean %q?", best)
	}
	return "", ": known here are " + strings.Join(keys, ", ")
}

// editDistance is Levenshtein's, over bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diag, row[j+1] = row[j+1], min(row[j]+1, row[j+1]+1, diag+cost)
		}
	}
	return row[len(b)]
}
