// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cockroachdb/errors/oserror"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"
)

// Exists says whether there is a store at path, and changes nothing. What is
// there but cannot be one is ErrForeign. fs nil: the disk.
func Exists(fs vfs.FS, path string) (bool, error) {
	if fs == nil {
		fs = vfs.Default
	}
	ok, err := exists(fs, path)
	if err != nil {
		return false, fmt.Errorf("look at metadata %q: %w", path, err)
	}
	return ok, nil
}

func exists(fs vfs.FS, path string) (bool, error) {
	info, err := fs.Stat(path)
	switch {
	case oserror.IsNotExist(err):
		return false, nil
	case err != nil:
		return false, err
	case !info.IsDir():
		return false, fmt.Errorf("%w: it is a file", ErrForeign)
	}
	names, err := fs.List(path)
	if err != nil {
		return false, err
	}
	found := false
	for _, name := range names {
		if strings.HasPrefix(name, markerPrefix) {
			return false, fmt.Errorf("%w: it is a Pebble store; if it is rawblockd's, the directory around it is the one", ErrForeign)
		}
		found = found || name == dirName
	}
	if !found {
		return false, nil
	}
	desc, err := pebble.Peek(fs.PathJoin(path, dirName), fs)
	switch {
	case errors.Is(err, unix.ENOTDIR):
		return false, fmt.Errorf("%w: its %s is a file", ErrForeign, dirName)
	case err != nil:
		return false, err
	case !desc.Exists:
		return false, fmt.Errorf("%w: there is no store in its %s", ErrForeign, dirName)
	}
	return true, nil
}
