// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing that is wrong.
type Fault struct {
	Path string // YAML path, as in slabs[0].io_size; empty: the file as a whole
	Line int    // in the file; 0 when the value is not from a file
	Env  string // the environment variable that set the value, if one did
	Msg  string // value, what is wrong with it, what is allowed
}

// String returns the fault on one line.
func (f Fault) String() string {
	var b strings.Builder
	if f.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", f.Line)
	}
	b.WriteString(f.Path)
	if f.Env != "" {
		fmt.Fprintf(&b, " (from $%s)", f.Env)
	}
	if f.Path != "" {
		b.WriteString(": ")
	}
	b.WriteString(f.Msg)
	return b.String()
}

// Error is every fault of one configuration.
type Error struct {
	Source string // the file; empty: built in
	Faults []Fault
}

// Error returns one line for one fault, else one line for each.
func (e *Error) Error() string {
	src := "configuration"
	if e.Source != "" {
		src = "configuration " + e.Source
	}
	if len(e.Faults) == 1 {
		return src + ": " + e.Faults[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d faults", src, len(e.Faults))
	for _, f := range e.Faults {
		b.WriteString("\n  ")
		b.WriteString(f.String())
	}
	return b.String()
}

// faults collects what is wrong.
type faults []Fault

func (fs *faults) add(path, format string, args ...any) {
	*fs = append(*fs, Fault{Path: path, Msg: fmt.Sprintf(format, args...)})
}

// err returns nil, or all faults in the order of the file.
func (fs faults) err(source string) error {
	if len(fs) == 0 {
		return nil
	}
	slices.SortStableFunc(fs, func(a, b Fault) int { return a.Line - b.Line })
	return &Error{Source: source, Faults: fs}
}
