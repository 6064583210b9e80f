// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/internal/testdev"
)

func TestOneDeviceUnderTwoNames(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"file", "other"} {
		if err := os.WriteFile(at(name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"link": "file", "link2": "link", "broken": "missing"} {
		if err := os.Symlink(target, at(link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(dir, at("folder")); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(at("file"), at("hard")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{"file", "link", true},
		{"link", "file", true},
		{"link", "link2", true},
		{"file", "hard", true},
		{"file", "folder/file", true},
		{"missing", "folder/missing", true},
		{"file", "other", false},
		{"link", "other", false},
		{"missing", "missing2", false},
		{"file", "missing", false},
	} {
		t.Run(tt.a+" "+tt.b, func(t *testing.T) { wantSame(t, at(tt.a), at(tt.b), tt.same) })
	}
}

func wantSame(t *testing.T, a, b string, same bool) {
	t.Helper()
	_, err := loadText(t, fmt.Sprintf("slabs: [{name: first, device: %s}, {name: second, device: %s}]", a, b))
	if (err != nil) != same {
		t.Fatalf("got %v, want the same device: %v", err, same)
	}
	if !same {
		return
	}
	for _, want := range []string{"slabs[1].device", b, "slabs[0]", `"first" and "second"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v: does not say %s", err, want)
		}
	}
}

// TestOneBlockDeviceUnderTwoNodes: the number counts, not the node.
func TestOneBlockDeviceUnderTwoNodes(t *testing.T) {
	one, two := testdev.Loop(t, 1<<20, 512), testdev.Loop(t, 1<<20, 512)
	var st unix.Stat_t
	if err := unix.Stat(one, &st); err != nil {
		t.Fatal(err)
	}
	node := filepath.Join(t.TempDir(), "node")
	if err := unix.Mknod(node, unix.S_IFBLK|0o600, int(st.Rdev)); err != nil {
		t.Skipf("no device nodes can be made here: %v", err)
	}
	wantSame(t, one, node, true)
	wantSame(t, two, node, false)
}
