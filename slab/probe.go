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

// signature asks blkid about the device, and about its last MiB as if it were one,
// and returns what it found, or "". Without blkid there is still the check for
// zeros.
func (h host) signature(path string, g ioengine.Geometry) (string, error) {
	if h.blkid == nil {
		return "", nil
	}
	for _, off := range []int64{0, endOffset(g.Size)} {
		args, where := []string{"-p", "-o", "export"}, ""
		if off > 0 {
			args, where = append(args, "--offset", strconv.FormatInt(off, 10)), fmt.Sprintf(" at offset %d", off)
		}
		out, code, err := h.blkid(append(args, path)...)
		if err != nil {
			return "", fmt.Errorf("look for signatures on %s: %w", path, err)
		}
		switch code {
		case blkidFound:
			if what := exported(out); what != "" {
				return what + where, nil
			}
		case blkidNothing:
		case blkidAmbiguous:
			return "several signatures that contradict each other" + where, nil
		default:
			return "", fmt.Errorf("look for signatures on %s: blkid %s: exit code %d", path, strings.Join(args, " "), code)
		}
	}
	return "", nil
}

// exported picks the telling pairs of blkid's output.
func exported(out string) string {
	var pairs []string
	for line := range strings.Lines(out) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		switch name {
		case "TYPE", "PTTYPE", "LABEL", "UUID", "PTUUID":
			if ok {
				pairs = append(pairs, name+"="+value)
			}
		}
	}
	return strings.Join(pairs, " ")
}
