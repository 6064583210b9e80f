// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPathsThatAreNotThere says what to do about each.
func TestPathsThatAreNotThere(t *testing.T) {
	failed(t, "correct the path (lsblk -o NAME,SIZE,MODEL,SERIAL shows", "inspect", filepath.Join(t.TempDir(), "nope"))
	for _, args := range [][]string{{"config", "check"}, {"config", "print"}, {"serve"}, {"doctor"}} {
		r := command(t, append(args, "--config", "/nope/nope.yaml")...)
		if r.code != exitUsage || !strings.Contains(r.errors, "/nope/nope.yaml: no such file or directory; correct --config, or leave it out for "+defaultConfig) {
			t.Errorf("%v: got %+v", args, r)
		}
	}
}

// TestPasswordInAnAddress is not used, and not shown.
func TestPasswordInAnAddress(t *testing.T) {
	for _, addr := range []string{"http://user:s3cret@127.0.0.1:9200", "http://user:s3cr%zzet@127.0.0.1:9200", "https://s3cret@h:1/x", "user:s3cret@h:1", "http://a:s3cr@et@h:1"} {
		for _, r := range []result{command(t, "status", "--addr", addr), func() result {
			t.Setenv("RAWBLOCKD_ADDR", addr)
			return command(t, "ls")
		}()} {
			if r.code != exitUsage || strings.Contains(r.errors+r.out, "s3cr") || !strings.Contains(r.errors, "leave them out") {
				t.Errorf("%s: got %+v", addr, r)
			}
		}
	}
}

// TestTokenFileOfOthers is used, with a warning.
func TestTokenFileOfOthers(t *testing.T) {
	_, addr := serveIn(t, shortDir(t))
	path := inFile(t, t.TempDir(), "token", "a-token-of-some-length")
	for mode, warned := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o644: true, 0o604: true} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		r := command(t, "lookup", "k", "--addr", addr, "--token-file", path)
		want := "warning: --token-file " + path + ": its mode 0" // and more
		if strings.Contains(r.errors, want) != warned || warned && !strings.Contains(r.errors, "chmod o-rwx it") || strings.Contains(r.errors, "some-length") {
			t.Errorf("mode %o: got %+v", mode, r)
		}
	}
}

// TestMetadataOpenToOthers: a directory that was made beforehand stays as it is, which
// the log and doctor say.
func TestMetadataOpenToOthers(t *testing.T) {
	c := testConfig(t, shortDir(t))
	path := write(t, c)
	const said = "lets every user of this host read the metadata in "
	for mode, open := range map[os.FileMode]bool{0o755: true, 0o751: true, 0o750: false, 0o700: false} {
		if err := os.MkdirAll(c.Meta.Path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(c.Meta.Path, mode); err != nil {
			t.Fatal(err)
		}
		s := serve(t, "--config", path)
		s.end()
		if log := s.log.String(); strings.Contains(log, said+c.Meta.Path+", keys among it: chmod o-rwx it") != open {
			t.Errorf("mode %o: the log says %s", mode, log)
		}
		found := false
		for _, f := range examine(t, c).Checks {
			if strings.Contains(f.Detail, said) {
				found = true
				f.wants(t, verdictWarn, "chmod o-rwx "+c.Meta.Path)
			}
		}
		if found != open {
			t.Errorf("mode %o: doctor says it: %v", mode, found)
		}
	}
}
