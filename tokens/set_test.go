// SPDX-License-Identifier: Apache-2.0

package tokens

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/internal/testdev"
)

func TestMain(m *testing.M) { testdev.Main(m) }

const (
	tokenA = "token-of-engine-a-0000"
	tokenB = "token-of-engine-b-0000"
	tokenC = "token-of-the-operator-0"
)

func sum(token string) string {
	h := sha256.Sum256([]byte(token))
	return hex.EncodeToString(h[:])
}

func good() string {
	return "- {name: a, token: " + tokenA + ", namespaces: [one, two]}\n" +
		"- {name: b, sha256: " + strings.ToUpper(sum(tokenB)) + `, namespaces: ["*"]}` + "\n" +
		"- {name: ops, token: '" + tokenC + "', admin: true}\n"
}

func mustParse(t *testing.T, text string) *Set {
	t.Helper()
	s, err := Parse("t", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestFind(t *testing.T) {
	s := mustParse(t, good())
	if s.Len() != 3 {
		t.Errorf("got %d tokens, want 3", s.Len())
	}
	for token, want := range map[string]Token{
		tokenA: {Name: "a", Namespaces: map[string]bool{"one": true, "two": true}},
		tokenB: {Name: "b", Everything: true},
		tokenC: {Name: "ops", Admin: true},
	} {
		got := s.Find(token)
		if got == nil || got.Name != want.Name || got.Everything != want.Everything || got.Admin != want.Admin || !maps.Equal(got.Namespaces, want.Namespaces) {
			t.Errorf("%s: got %+v, want %+v", token, got, want)
		}
	}
	for _, token := range []string{"", "x", tokenA[:len(tokenA)-1], tokenA + "x", strings.ToUpper(tokenA), sum(tokenA), sum(tokenB), " " + tokenA} {
		if got := s.Find(token); got != nil {
			t.Errorf("%q: got %+v, want none", token, got)
		}
	}
}

// TestAllAreCompared: whatever is presented, and wherever it is in the list, its
// hash meets every hash of the list, whole.
func TestAllAreCompared(t *testing.T) {
	var text strings.Builder
	const n = 50
	token := func(i int) string { return fmt.Sprintf("token-number-%08d", i) }
	for i := range n {
		fmt.Fprintf(&text, "- {name: t%d, token: %s, namespaces: [n]}\n", i, token(i))
	}
	s := mustParse(t, text.String())
	if reflect.ValueOf(s.equal).Pointer() != reflect.ValueOf(subtle.ConstantTimeCompare).Pointer() {
		t.Error("hashes are not compared by crypto/subtle: how long that takes may tell how much of one is right")
	}
	var met []string
	s.equal = func(a, b []byte) int {
		if len(a) != sha256.Size || len(b) != sha256.Size {
			t.Errorf("compared %d bytes with %d, want the whole hashes", len(a), len(b))
		}
		met = append(met, hex.EncodeToString(b))
		return subtle.ConstantTimeCompare(a, b)
	}
	all := make([]string, n)
	for i := range all {
		all[i] = sum(token(i))
	}
	presented := []string{token(0), token(n / 2), token(n - 1), ""}
	for _, length := range []int{1, MinBytes - 1, MinBytes, len(token(0)), 64, MaxBytes, 30 << 10} {
		presented = append(presented, strings.Repeat("x", length), token(7)[:min(length, len(token(7))-1)])
	}
	for i, p := range presented {
		met = nil
		if got := s.Find(p); (got != nil) != (i < 3) {
			t.Errorf("%.40q: got %+v", p, got)
		}
		if !slices.Equal(met, all) {
			t.Errorf("%.40q: compared with %d hashes, want all %d", p, len(met), n)
		}
	}
}

// A short token does not count, though its hash is in the file.
func TestShortTokenByHash(t *testing.T) {
	short := "fifteen-bytes!!"
	for _, token := range []string{short, ""} {
		s := mustParse(t, "- {name: a, sha256: "+sum(token)+", namespaces: [n]}")
		if got := s.Find(token); got != nil {
			t.Errorf("%q: got %+v, want none", token, got)
		}
	}
	if s := mustParse(t, "- {name: a, sha256: "+sum(short+"x")+", namespaces: [n]}"); s.Find(short+"x") == nil {
		t.Error("a token of 16 bytes does not count")
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name string, mode os.FileMode) string {
		if err := os.WriteFile(at(name), []byte(good()), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(at(name), mode); err != nil {
			t.Fatal(err)
		}
		return at(name)
	}
	for _, mode := range []os.FileMode{0o600, 0o640, 0o660, 0o400} {
		if s, err := Load(write("good", mode)); err != nil || s.Len() != 3 {
			t.Errorf("mode %o: got %v, %v", mode, s, err)
		}
	}
	if err := os.Symlink("good", at("link")); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(at("link")); err != nil {
		t.Errorf("through a link: %v", err)
	}
	if err := unix.Mkfifo(at("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at("large"), make([]byte, maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		at("none"):            "there is no such file: make it",
		dir:                   "is no regular file",
		at("pipe"):            "is no regular file",
		at("large"):           "at most 4194304",
		write("read", 0o644):  "its mode 0644 gives others rights on it: chmod o-rwx " + at("read"),
		write("exec", 0o601):  "its mode 0601 gives others rights",
		write("write", 0o602): "its mode 0602 gives others rights",
	} {
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "token file "+path+": ") {
			t.Errorf("%s: got %v, want %s", path, err, want)
		}
	}
}

// A link to a file that others may read is no way around its mode.
func TestModeIsTheFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t")
	if err := os.WriteFile(path, []byte(good()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o604); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, path+".link"); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path + ".link"); err == nil {
		t.Error("loaded")
	}
}

func TestUnreadable(t *testing.T) {
	if err := unreadable(&os.PathError{Op: "open", Path: "/t", Err: unix.EACCES}); !strings.Contains(err.Error(), "may not read it: give it to that user") || strings.Contains(err.Error(), "/t") {
		t.Errorf("got %v", err)
	}
	if err := unreadable(&os.PathError{Op: "open", Path: "/t", Err: unix.EIO}); err != unix.EIO {
		t.Errorf("got %v", err)
	}
}
