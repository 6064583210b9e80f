// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/config"
)

func TestSocketModeAndGroup(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("giving a socket to a group that is not one's own needs root")
	}
	path := filepath.Join(shortDir(t), "sub", "s")
	l, err := listenUnix(config.Listen{Unix: path, UnixMode: 0o620, UnixGroup: "12345"})
	if err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	if st.Mode&0o777 != 0o620 || st.Gid != 12345 {
		t.Errorf("got mode %o and group %d, want 620 and 12345", st.Mode&0o777, st.Gid)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if names, _ := filepath.Glob(filepath.Dir(path) + "/*"); len(names) != 0 {
		t.Errorf("left behind: %v", names)
	}
	_, err = listenUnix(config.Listen{Unix: path, UnixMode: 0o620, UnixGroup: "no-such-group"})
	if err == nil || !strings.Contains(err.Error(), "listen.unix_group") {
		t.Errorf("unknown group: got %v", err)
	}
	if names, _ := filepath.Glob(filepath.Dir(path) + "/*"); len(names) != 0 {
		t.Errorf("a refusal left behind: %v", names)
	}
}

func TestStaleSocketIsReplaced(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	old, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	old.SetUnlinkOnClose(false)
	_, err = listenUnix(config.Listen{Unix: path, UnixMode: 0o600})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("another daemon listens there (pid %d)", os.Getpid())) {
		t.Fatalf("live socket: got %v", err)
	}
	if c, err := net.Dial("unix", path); err != nil {
		t.Errorf("the refusal harmed the live socket: %v", err)
	} else {
		_ = c.Close()
	}
	_ = old.Close()
	if fi, err := os.Lstat(path); err != nil || fi.Mode().Type() != fs.ModeSocket {
		t.Fatalf("no stale socket to test with: %v", err)
	}
	l, err := listenUnix(config.Listen{Unix: path, UnixMode: 0o600})
	if err != nil {
		t.Fatalf("stale socket: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func TestSocketPathTaken(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := listenUnix(config.Listen{Unix: path, UnixMode: 0o600})
	if err == nil || !strings.Contains(err.Error(), "no socket: remove it, or change listen.unix") {
		t.Errorf("got %v", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "precious" {
		t.Errorf("the file was touched: %q, %v", b, err)
	}
}

// TestClosedSocketLeavesOthersAlone: a daemon that ends late must not remove
// the socket of the one that replaced it.
func TestClosedSocketLeavesOthersAlone(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	l, err := listenUnix(config.Listen{Unix: path, UnixMode: 0o600})
	if err != nil {
		t.Fatal(err)
	}
	// Its inode is still in use, so the new file cannot get the same one.
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the other's file is gone: %v", err)
	}
}

// A socket is closed to others from the first moment on, whatever the umask is: who
// connects before its mode is set would be served all the same.
func TestSocketIsBoundClosed(t *testing.T) {
	defer unix.Umask(unix.Umask(0))
	path := filepath.Join(shortDir(t), "s")
	l, err := bindClosed(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	fi, err := os.Lstat(path)
	if err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, %v, want 0600", fi.Mode(), err)
	}
}
