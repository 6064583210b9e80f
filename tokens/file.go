// SPDX-License-Identifier: Apache-2.0

package tokens

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// maxFile bounds what is read: some thousands of tokens.
const maxFile = 4 << 20

// Load reads the file at path, which others must have no rights on.
func Load(path string) (*Set, error) {
	text, err := read(path)
	if err != nil {
		return nil, &Error{File: path, Faults: []Fault{{Msg: err.Error()}}}
	}
	return Parse(path, text)
}

// read looks at the mode of the very file that it reads.
func read(path string) (_ []byte, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe must not hang the daemon
	if err != nil {
		return nil, unreadable(err)
	}
	defer func() { _ = f.Close() }() // nothing was written
	fi, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !fi.Mode().IsRegular():
		return nil, errors.New("is no regular file: name the file itself")
	case fi.Mode().Perm()&0o007 != 0:
		return nil, fmt.Errorf("its mode %04o gives others rights on it: chmod o-rwx %s (of a Kubernetes secret: defaultMode 0440), and replace the tokens if anybody may have read them", fi.Mode().Perm(), path)
	case fi.Size() > maxFile:
		return nil, fmt.Errorf("has %d bytes; at most %d", fi.Size(), maxFile)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, fmt.Errorf("read: %w", bare(err))
	}
	return text, nil
}

// unreadable says what to do about a file that cannot be opened.
func unreadable(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("there is no such file: make it with mode 0640 or less, or correct auth.token_file")
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("the daemon, uid %d, may not read it: give it to that user, or to a group of it", os.Geteuid())
	}
	return bare(err)
}

// bare takes the path off, which the Error names already.
func bare(err error) error {
	if e := (*fs.PathError)(nil); errors.As(err, &e) {
		return e.Err
	}
	return err
}
