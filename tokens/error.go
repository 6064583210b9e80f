// SPDX-License-Identifier: Apache-2.0

package tokens

import (
	"fmt"
	"strings"
)

// Fault is one thing that is wrong with a file.
type Fault struct {
	Line int    // 0: the file as a whole
	Path string // as in [2].namespaces; empty: the file as a whole
	Msg  string // what is wrong, and what is allowed
}

// String returns the fault on one line.
func (f Fault) String() string {
	s := f.Msg
	if f.Path != "" {
		s = f.Path + ": " + s
	}
	if f.Line > 0 {
		s = fmt.Sprintf("line %d: %s", f.Line, s)
	}
	return s
}

// Error is every fault of one file.
type Error struct {
	File   string
	Faults []Fault
}

// Error returns one line.
func (e *Error) Error() string {
	all := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		all[i] = f.String()
	}
	return "token file " + e.File + ": " + strings.Join(all, "; ")
}
