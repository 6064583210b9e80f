// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"errors"
	"os"
)

// Probe makes a ring of so many entries on a file and ends it: nil says that this process
// may have one, may enter it and register with it, and that the kernel has every feature
// and opcode that Submit needs.
func Probe(entries int) error {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	r, err := Open(int(null.Fd()), entries)
	if err == nil {
		err = r.Close()
	}
	return errors.Join(err, null.Close())
}
