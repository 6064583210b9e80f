// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// document is what these tests read of the OpenAPI document.
type document struct {
	Components struct {
		Schemas map[string]struct {
			Enum       []string
			Properties map[string]any
		}
	}
}

func readDocument(t *testing.T) document {
	t.Helper()
	var d document
	if err := json.Unmarshal(OpenAPI(), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// The document knows the status words and the problem codes of this package, and
// no others.
func TestOpenAPIWords(t *testing.T) {
	d := readDocument(t)
	var want []string
	for _, s := range Statuses() {
		want = append(want, string(s))
	}
	if diff := cmp.Diff(want, d.Components.Schemas["Status"].Enum); diff != "" {
		t.Errorf("status words: %s", diff)
	}
	got := d.Components.Schemas["ProblemCode"].Enum
	codes := constants(t, "problem.go", "Code")
	for _, code := range codes {
		if !slices.Contains(got, code) {
			t.Errorf("the document does not have the problem code %s", code)
		}
	}
	for _, code := range got {
		if !slices.Contains(codes, code) && !Status(code).Valid() {
			t.Errorf("the document has the problem code %s, which there is not", code)
		}
	}
}

// constants returns the strings that the constants of a file have whose names
// begin with prefix.
func constants(t *testing.T, file, prefix string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, prefix) {
			return true
		}
		if lit, ok := spec.Values[0].(*ast.BasicLit); ok {
			s, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, s)
		}
		return true
	})
	if len(out) < 20 {
		t.Fatalf("found %d constants in %s", len(out), file)
	}
	return out
}

// Every object of the document is closed: what it does not name is not there.
func TestOpenAPIObjectsAreClosed(t *testing.T) {
	var doc any
	if err := json.Unmarshal(OpenAPI(), &doc); err != nil {
		t.Fatal(err)
	}
	objects := 0
	walk("", doc, func(path string, m map[string]any) {
		if m["type"] != "object" || m["properties"] == nil {
			return
		}
		objects++
		if m["additionalProperties"] != false {
			t.Errorf("%s: additionalProperties is %v, want false", path, m["additionalProperties"])
		}
	})
	if objects < 40 {
		t.Errorf("found %d objects, want them all", objects)
	}
}

func walk(path string, v any, see func(path string, m map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		see(path, v)
		for k, sub := range v {
			walk(path+"/"+k, sub, see)
		}
	case []any:
		for i, sub := range v {
			walk(path+"/"+strconv.Itoa(i), sub, see)
		}
	}
}
