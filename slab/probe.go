// SPDX-License-Identifier: Apache-2.0

package slab

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/rawblockd/rawblockd/ioengine"
)

// occupied refuses a device on which there is anything.
func (h host) occupied(t target, dev ioengine.Device, o *InitOptions) error {
	copies, err := readLabels(dev)
	if err != nil {
		return err
	}
	if best, ok := bestLabel(copies); ok {
		return fmt.Errorf("%w: %s is a rawblockd slab already: %s; to lose all its data, run: %s",
			ErrRefused, t.path, describe(best), t.wipeCommand(o))
	}
	for _, c := range copies {
		if errors.Is(c.Err, ErrLabel) {
			return fmt.Errorf("%w: %s has a damaged rawblockd label at %d; to lose what is left, run: %s",
				ErrRefused, t.path, c.Off, t.wipeCommand(o))
		}
	}
	what, err := h.signature(t.path, dev.Geometry())
	if err != nil {
		return err
	}
	if what != "" {
		return fmt.Errorf("%w: blkid finds %s on %s; to lose it, run: %s", ErrRefused, what, t.path, t.wipeCommand(o))
	}
	where, at, value, found, err := firstNonZero(dev)
	if err != nil {
		return err
	}
	if found {
		return fmt.Errorf("%w: %s of %s is not all zero (0x%02x at offset %d), something may be there; to lose it, run: %s",
			ErrRefused, where.name, t.path, value, at, t.wipeCommand(o))
	}
	return nil
}

// describe names a slab by what its owner recognises.
func describe(c Copy) string {
	if c.Err != nil {
		return fmt.Sprintf("incarnation %s (%v)", UUID(c.Label.Incarnation), c.Err)
	}
	l := c.Label
	name := "without a name"
	if l.Name != "" {
		name = "name " + quote(l.Name)
	}
	return fmt.Sprintf("%s, incarnation %s, %d slots of %s, last holder %s",
		name, UUID(l.Incarnation), l.SlotCount, human(l.SlotSize), l.Holder)
}

// blkid's exit codes.
const (
	blkidFound     = 0
	blkidNothing   = 2
	blkidAmbiguous = 8
)

// signature is something that blkid knows.
type signature struct {
	pairs [][2]string // the telling ones; none: several that contradict each other
	off   int64       // where blkid was asked to look
}

// signatures asks blkid about a device of that size, and about its last MiB as if it
// were one. Without blkid there is still the check for zeros.
func (h host) signatures(path string, size int64) ([]signature, error) {
	if h.blkid == nil {
		return nil, nil
	}
	var found []signature
	for _, off := range []int64{0, endOffset(size)} {
		args := []string{"-p", "-o", "export"}
		if off > 0 {
			args = append(args, "--offset", strconv.FormatInt(off, 10))
		}
		if off < 0 || off == 0 && len(found) > 0 {
			continue // it has no last MiB of its own
		}
		out, code, err := h.blkid(append(args, path)...)
		if err != nil {
			return nil, fmt.Errorf("look for signatures on %s: %w", path, err)
		}
		switch code {
		case blkidFound:
			if pairs := exported(out); len(pairs) > 0 {
				found = append(found, signature{pairs, off})
			}
		case blkidNothing:
		case blkidAmbiguous:
			found = append(found, signature{nil, off})
		default:
			return nil, fmt.Errorf("look for signatures on %s: blkid %s: exit code %d", path, strings.Join(args, " "), code)
		}
	}
	return found, nil
}

// signature returns all that blkid finds in blkid's words, or "".
func (h host) signature(path string, g ioengine.Geometry) (string, error) {
	found, err := h.signatures(path, g.Size)
	var texts []string
	for _, s := range found {
		texts = append(texts, s.String())
	}
	return strings.Join(texts, ", "), err
}

func (s signature) where() string {
	if s.off == 0 {
		return ""
	}
	return fmt.Sprintf(" at offset %d", s.off)
}

// contradiction is what blkid means by ambiguous.
const contradiction = "several signatures that contradict each other"

// String is what blkid printed.
func (s signature) String() string {
	if s.pairs == nil {
		return contradiction + s.where()
	}
	var words []string
	for _, p := range s.pairs {
		words = append(words, p[0]+"="+quote(p[1]))
	}
	return strings.Join(words, " ") + s.where()
}

// words is what a human calls it: ext4 "data".
func (s signature) words() string {
	if s.pairs == nil {
		return contradiction + s.where()
	}
	var kind, label, table string
	for _, p := range s.pairs {
		switch p[0] {
		case "TYPE":
			kind = p[1]
		case "LABEL":
			label = fmt.Sprintf(" %q", p[1])
		case "PTTYPE":
			table = p[1] + " partition table"
		}
	}
	switch {
	case kind != "" && table != "":
		return kind + label + " and " + table + s.where()
	case kind != "":
		return kind + label + s.where()
	case table != "":
		return table + s.where()
	}
	return s.String()
}

// exported picks the telling pairs of blkid's output, which is escaped for a shell.
func exported(out string) [][2]string {
	var pairs [][2]string
	for line := range strings.Lines(out) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		switch name {
		case "TYPE", "PTTYPE", "LABEL", "UUID", "PTUUID":
			if ok {
				pairs = append(pairs, [2]string{name, unslash(value)})
			}
		}
	}
	return pairs
}

// unslash removes the backslashes that a shell would.
func unslash(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
