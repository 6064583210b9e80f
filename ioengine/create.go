// SPDX-License-Identifier: Apache-2.0

package ioengine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Create makes a regular file of size bytes with all of its space allocated, so
// that no store fails for want of room later, and makes its name durable. It
// fails if path exists. After a failure nothing is left behind.
func Create(path string, size int64) error {
	if err := create(path, size); err != nil {
		return fmt.Errorf("create %q of %d bytes: %w", path, size, err)
	}
	return nil
}

func create(path string, size int64) error {
	if size <= 0 {
		return errors.New("size must be positive")
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = fill(f, size)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

func fill(f *os.File, size int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), 0, 0, size)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("fallocate: %w", err)
		}
		return f.Sync()
	}
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
