// SPDX-License-Identifier: Apache-2.0

package slab

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rawblockd/rawblockd/ioengine"
)

// Survey is Inspect, and whatever else would be lost with the device: it fills in
// Signatures, Partitions and NotZero as well. It claims and changes nothing. Its
// errors are those of Inspect, joined with why it could not look further.
func Survey(path string) (Report, error) {
	r, err := Inspect(path)
	if r.RealPath == "" || r.Geometry.Size == 0 {
		return r, err
	}
	if more := thisHost().survey(&r); more != nil {
		err = errors.Join(err, fmt.Errorf("survey %q: %w", path, more))
	}
	return r, err
}

func (h host) survey(r *Report) error {
	t, err := h.target(r.RealPath)
	if err != nil {
		return err
	}
	found, err := h.signatures(t.path, r.Geometry.Size)
	for _, s := range found {
		r.Signatures = append(r.Signatures, s.words())
	}
	if !t.regular {
		err = errors.Join(err, h.surveyPartitions(t, r))
	}
	return errors.Join(err, surveyBytes(r))
}

func (h host) surveyPartitions(t target, r *Report) error {
	paths, err := partitions(t)
	for _, path := range paths {
		p := Partition{Path: path, Size: sectors(filepath.Join(t.sysdir, filepath.Base(path), "size"))}
		found, blkidErr := h.signatures(path, p.Size)
		err = errors.Join(err, blkidErr)
		for _, s := range found {
			p.Signatures = append(p.Signatures, s.words())
		}
		r.Partitions = append(r.Partitions, p)
	}
	return err
}

// sectors returns a size that sysfs gives in units of 512 bytes.
func sectors(path string) int64 {
	n, err := strconv.ParseInt(readLine(path), 10, 64)
	if err != nil {
		return 0
	}
	return n * 512
}

func surveyBytes(r *Report) error {
	dev, err := ioengine.Open(r.RealPath, ioengine.OpenOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	where, at, value, found, err := firstNonZero(dev)
	if found {
		r.NotZero = fmt.Sprintf("%s is not all zero (0x%02x at offset %d)", where.name, value, at)
	}
	return errors.Join(err, dev.Close())
}

// Partition is a part of a device that the kernel knows.
type Partition struct {
	Path       string
	Size       int64
	Signatures []string
}

// Contents lists what is on the device, one thing a line, for somebody who is asked
// whether it may be lost. Of bytes that nobody knows it speaks only if there is
// nothing else; empty means that Survey found nothing at all.
func (r *Report) Contents() []string {
	var lines []string
	if best, ok := bestLabel(r.Copies); ok {
		lines = append(lines, "rawblockd slab: "+describe(best))
	} else {
		for _, c := range r.Copies {
			if errors.Is(c.Err, ErrLabel) {
				lines = append(lines, fmt.Sprintf("a damaged rawblockd label at %d", c.Off))
			}
		}
	}
	lines = append(lines, r.Signatures...)
	for _, p := range r.Partitions {
		what := "nothing that blkid knows"
		if len(p.Signatures) > 0 {
			what = strings.Join(p.Signatures, ", ")
		}
		lines = append(lines, fmt.Sprintf("partition %s of %s: %s", p.Path, human(p.Size), what))
	}
	if len(lines) == 0 && r.NotZero != "" {
		lines = append(lines, "something unknown: "+r.NotZero)
	}
	return lines
}

// LastHolder names the process that mounted the slab last, and what is known of it;
// "" without a label that can be read.
func (r *Report) LastHolder() string {
	if best, ok := bestLabel(r.Copies); ok && best.Err == nil {
		return best.Label.Holder.String()
	}
	return ""
}
