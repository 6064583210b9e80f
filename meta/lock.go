// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"
)

// lockDir takes the lock that covers building, ballast and Pebble's own directory.
func lockDir(fs vfs.FS, name string) (io.Closer, error) {
	lock, err := fs.Lock(name)
	if err == nil {
		return lock, nil
	}
	if path := (*os.PathError)(nil); errors.As(err, &path) {
		return nil, err // the file itself could not be made
	}
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return nil, fmt.Errorf("%w: %s is locked by %s", ErrHeld, name, lockHolder(name))
	}
	return nil, fmt.Errorf("%w: %s: %w", ErrHeld, name, err)
}

// LockedBy names the process that has the metadata at path open; ok is false
// when none has, or none that this one can see. It changes nothing.
func LockedBy(path string) (who string, ok bool) {
	return lockOwner(filepath.Join(path, lockName))
}

func lockHolder(name string) string {
	if who, ok := lockOwner(name); ok {
		return who
	}
	return "another process"
}

// lockOwner finds who locked a file in /proc/locks. Asking the kernel through
// the file would be shorter, but closing that descriptor would drop this
// process's own POSIX lock on it (H24).
func lockOwner(name string) (string, bool) {
	var st unix.Stat_t
	locks, err := os.ReadFile("/proc/locks")
	if err != nil || unix.Stat(name, &st) != nil {
		return "", false
	}
	id := fmt.Sprintf("%02x:%02x:%d", unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino)
	for line := range strings.Lines(string(locks)) {
		// 1: POSIX  ADVISORY  WRITE 4711 fd:01:131 0 EOF
		f := strings.Fields(line)
		if len(f) < 6 || f[5] != id {
			continue
		}
		if pid, err := strconv.Atoi(f[4]); err == nil && pid > 0 {
			comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)) // a name is a courtesy
			return strings.TrimSpace(fmt.Sprintf("process %d %s", pid, comm)), true
		}
	}
	return "", false
}
