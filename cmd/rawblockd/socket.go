// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/config"
)

// unixListener removes its socket when it is closed, unless the path has become
// somebody else's meanwhile.
type unixListener struct {
	*net.UnixListener
	path string
	ino  uint64
}

// Close implements net.Listener.
func (l *unixListener) Close() error {
	err := l.UnixListener.Close()
	var st unix.Stat_t
	if unix.Lstat(l.path, &st) == nil && st.Ino == l.ino {
		err = errors.Join(err, os.Remove(l.path))
	}
	return err
}

// listenUnix makes the socket. A socket file that nobody listens on any more is
// replaced; whether somebody does is found out by connecting. The folder is
// locked meanwhile, so that of two daemons that start together only one can
// replace it. The socket appears under its name when its mode and group are
// set, so nobody gets in before.
func listenUnix(l config.Listen) (net.Listener, error) {
	fail := func(err error) error { return fmt.Errorf("listen.unix %q: %w", l.Unix, err) }
	dir := filepath.Dir(l.Unix)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fail(err)
	}
	d, err := os.Open(dir)
	if err != nil {
		return nil, fail(err)
	}
	defer func() { _ = d.Close() }() // gives the lock back
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX); err != nil {
		return nil, fail(fmt.Errorf("lock the folder: %w", err))
	}
	if err := checkStale(l.Unix); err != nil {
		return nil, fail(err)
	}
	ul, err := bindUnix(l)
	if err != nil {
		return nil, fail(err)
	}
	return ul, nil
}

func bindUnix(l config.Listen) (_ net.Listener, err error) {
	tmp := l.Unix + ".new"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	ul, err := bindClosed(tmp)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ul.Close(), os.Remove(tmp))
		}
	}()
	if err := setOwner(tmp, l.UnixGroup); err != nil {
		return nil, err
	}
	if err := os.Chmod(tmp, fs.FileMode(l.UnixMode)); err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Lstat(tmp, &st); err != nil {
		return nil, err
	}
	if err := os.Rename(tmp, l.Unix); err != nil {
		return nil, err
	}
	return &unixListener{ul, l.Unix, st.Ino}, nil
}

// bindClosed listens on a socket that nobody else may open yet, whatever the umask
// is: who came in between would be served later, when the mode keeps him out. Linux
// gives the file the mode that the socket has when it is bound.
func bindClosed(path string) (*net.UnixListener, error) {
	lc := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) { failed = unix.Fchmod(int(fd), 0o600) })
		return errors.Join(err, failed)
	}}
	l, err := lc.Listen(context.Background(), "unix", path) // which waits for nothing
	if err != nil {
		return nil, err
	}
	ul := l.(*net.UnixListener)
	ul.SetUnlinkOnClose(false)
	return ul, nil
}

func setOwner(path, group string) error {
	if group == "" {
		return nil
	}
	gid, err := strconv.Atoi(group)
	if err != nil {
		g, err := user.LookupGroup(group)
		if err != nil {
			return fmt.Errorf("listen.unix_group: %w; name one of /etc/group, or a number", err)
		}
		if gid, err = strconv.Atoi(g.Gid); err != nil {
			return fmt.Errorf("listen.unix_group %q: %w", group, err)
		}
	}
	if err := os.Chown(path, -1, gid); err != nil {
		return fmt.Errorf("listen.unix_group %q: %w", group, err)
	}
	return nil
}

// checkStale returns nil when path is free, or a socket that nobody answers.
func checkStale(path string) error {
	fi, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case fi.Mode().Type() != fs.ModeSocket:
		return errors.New("something is there that is no socket: remove it, or change listen.unix")
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		defer func() { _ = conn.Close() }()
		return fmt.Errorf("another daemon listens there (%s): stop it, or change listen.unix", peer(conn))
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("cannot tell whether another daemon listens there: %w", err)
	}
	return nil
}

// peer names the process at the other end.
func peer(conn net.Conn) string {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return "pid unknown"
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err != nil || credErr != nil {
		return "pid unknown"
	}
	return fmt.Sprintf("pid %d", cred.Pid)
}
