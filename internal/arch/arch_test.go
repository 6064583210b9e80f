// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/rawblockd/rawblockd"

// everything is the arrow of a package that may import any other.
const everything = "*"

// arrows lists, by folder, what of ours the non-test files of a package may
// import. A package that is not listed here fails the test.
var arrows = map[string][]string{
	"cmd/rawblockd": {everything},
	"server":        {"api", "store", "shm", "tokens"},
	"bench":         {"client", "store", "ioengine", "evict"},
	"store":         {"slab", "meta", "evict", "ioengine"},
	"slab":          {"freelist", "ioengine"},
	"shm":           {"ioengine"},
	"client":        {"api"},
	"ioengine":      {},
	"meta":          {},
	"freelist":      {},
	"evict":         {},
	"config":        {},
	"api":           {},
	"tokens":        {},

	"ioengine/internal/ring": {},
	"ioengine/enginetest":    {"ioengine", "ioengine/internal/ring", "internal/simdev"},
	"internal/arch":          {},
	"internal/contract":      {"api"},

	"internal/contract/scripts": {},
	"internal/crashtest":        {"store", "slab", "meta", "ioengine", "ioengine/enginetest"},
	"internal/invariants":       {},
	"internal/killtest":         {"api", "client"},
	"internal/mutant":           {},
	"internal/simdev":           {"ioengine"},
	"internal/testcert":         {},
	"internal/testdev":          {},
	"internal/tools/testsum":    {},
}

// anyone may import these.
var anyone = []string{"internal/mutant", "internal/invariants"}

// only names, for packages that are not ours, the folders that may import them.
var only = map[string][]string{
	"github.com/spf13/viper":           {"config"},
	"github.com/cockroachdb/pebble/v2": {"meta", "internal/crashtest", "cmd/rawblockd"}, // cmd: the vfs that meta.Options takes
}

// banned is never imported, by tests neither.
var banned = []string{
	"github.com/stretchr/testify", "github.com/golang/mock", "go.uber.org/mock", "github.com/onsi",
	"github.com/gin-gonic", "github.com/labstack/echo", "github.com/go-chi", "github.com/gorilla",
	"github.com/sirupsen/logrus", "go.uber.org/zap", "github.com/rs/zerolog",
}

// maxMethods is the limit for interfaces; the seams of the engine are exempt.
const (
	maxMethods = 4
	maxLines   = 600
)

var bigInterfaces = []string{"ioengine.Engine", "ioengine.Device"}

// source is one parsed file.
type source struct {
	dir, name string // folder from the module's root, file name
	test      bool
	text      []byte
	fset      *token.FileSet
	file      *ast.File
}

func (s source) path() string { return path.Join(s.dir, s.name) }

func (s source) imports() []string {
	var out []string
	for _, spec := range s.file.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			out = append(out, p)
		}
	}
	return out
}

func sources(t *testing.T) []source {
	t.Helper()
	root := filepath.Join("..", "..")
	var out []source
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if p != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin" || d.Name() == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(d.Name(), ".go") {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, p, text, parser.ParseComments)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(p))
		if err != nil {
			return err
		}
		out = append(out, source{filepath.ToSlash(dir), d.Name(), strings.HasSuffix(d.Name(), "_test.go"), text, fset, file})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 10 {
		t.Fatalf("found %d files, want the whole module", len(out))
	}
	return out
}

func TestArrows(t *testing.T) {
	for _, s := range sources(t) {
		may, known := arrows[s.dir]
		if !known {
			t.Errorf("%s: package %s has no arrow in this test: add it, and to DESIGN's table", s.path(), s.dir)
			continue
		}
		if s.test {
			continue
		}
		for _, imp := range s.imports() {
			if fault := judge(s.dir, may, imp); fault != "" {
				t.Errorf("%s: %s", s.path(), fault)
			}
		}
	}
}

// judge returns what is wrong with the import imp in folder dir, or nothing.
func judge(dir string, may []string, imp string) string {
	ours, isOurs := strings.CutPrefix(imp, module+"/")
	if !isOurs {
		for pkg, dirs := range only {
			if (imp == pkg || strings.HasPrefix(imp, pkg+"/")) && !slices.Contains(dirs, dir) {
				return "imports " + imp + ", which only " + strings.Join(dirs, " and ") + " may"
			}
		}
		return ""
	}
	testOnly := slices.Contains([]string{"internal/testdev", "internal/testcert", "internal/simdev", "internal/contract"}, ours)
	switch {
	case slices.Contains(anyone, ours), slices.Contains(may, ours):
		return ""
	case may != nil && slices.Contains(may, everything) && !testOnly:
		return ""
	case strings.HasPrefix(ours, dir+"/internal/"):
		return ""
	case testOnly:
		return "imports " + ours + ", which is for tests"
	}
	return "imports " + ours + ", and no arrow allows it"
}

func TestJudgeCanFail(t *testing.T) {
	for _, tc := range []struct {
		dir, imp string
		fault    bool
	}{
		{"store", module + "/slab", false},
		{"slab", module + "/store", true},
		{"meta", module + "/internal/mutant", false},
		{"cmd/rawblockd", module + "/store", false},
		{"cmd/rawblockd", module + "/internal/simdev", true},
		{"store", "github.com/spf13/viper", true},
		{"config", "github.com/spf13/viper", false},
		{"store", "github.com/cockroachdb/pebble/v2/vfs", true},
		{"ioengine", module + "/ioengine/internal/ring", false},
		{"slab", "fmt", false},
	} {
		if got := judge(tc.dir, arrows[tc.dir], tc.imp); (got != "") != tc.fault {
			t.Errorf("%s importing %s: got %q, want a fault: %v", tc.dir, tc.imp, got, tc.fault)
		}
	}
}

func TestBannedImports(t *testing.T) {
	for _, s := range sources(t) {
		for _, imp := range s.imports() {
			for _, b := range banned {
				if imp == b || strings.HasPrefix(imp, b+"/") {
					t.Errorf("%s imports %s", s.path(), imp)
				}
			}
		}
	}
}

func TestPackageComments(t *testing.T) {
	docs := make(map[string]string)
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		docs[s.dir] += "" // a package without any comment is missing too
		if s.file.Doc != nil {
			docs[s.dir] += s.file.Doc.Text()
		}
	}
	for dir, doc := range docs {
		for _, word := range []string{"Concurrency", "Errors"} {
			if !strings.Contains(doc, word) {
				t.Errorf("%s: the package comment has no paragraph %q", dir, word)
			}
		}
	}
}

func TestFiles(t *testing.T) {
	for _, s := range sources(t) {
		if !bytes.HasPrefix(s.text, []byte("// SPDX-License-Identifier: Apache-2.0\n")) {
			t.Errorf("%s: the first line is not the SPDX line", s.path())
		}
		if n := bytes.Count(s.text, []byte("\n")); n > maxLines {
			t.Errorf("%s: %d lines, want at most %d", s.path(), n, maxLines)
		}
	}
}

func TestInterfacesAreSmall(t *testing.T) {
	for _, s := range sources(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			iface, ok := spec.Type.(*ast.InterfaceType)
			if !ok {
				return true
			}
			name := s.file.Name.Name + "." + spec.Name.Name
			if got := iface.Methods.NumFields(); got > maxMethods && !slices.Contains(bigInterfaces, name) {
				t.Errorf("%s: interface %s has %d methods, want at most %d", s.path(), name, got, maxMethods)
			}
			return true
		})
	}
}

// Package state that runs before main hides an order nobody wrote down, and a
// test that sleeps is either slow or flaky.
func TestHabits(t *testing.T) {
	for _, s := range sources(t) {
		for _, decl := range s.file.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s: has an init function", s.path())
			}
		}
		if !s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok || sel.Sel.Name != "Sleep" {
				return true
			}
			if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "time" && !usesSynctest(s) {
				t.Errorf("%s: sleeps at %s", s.path(), s.fset.Position(sel.Pos()))
			}
			return true
		})
	}
}

// usesSynctest says whether time.Sleep in s may be fake time: it imports synctest,
// or calls the function in which tests of its package run in it.
func usesSynctest(s source) bool {
	in := map[string]string{"server": "paced", "store": "inBubble"}[s.dir]
	return slices.Contains(s.imports(), "testing/synctest") || in != "" && bytes.Contains(s.text, []byte("\t"+in+"(t, "))
}
