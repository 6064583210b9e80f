// SPDX-License-Identifier: Apache-2.0

package slab

import (
	"errors"
	"fmt"

	"github.com/rawblockd/rawblockd/ioengine"
)

// Report is what can be said of a device without claiming it.
type Report struct {
	Path     string // as given
	RealPath string // without symbolic links
	Model    string // "" where the device has none
	Serial   string
	Geometry ioengine.Geometry
	Label    Label  // the one that counts
	Copies   []Copy // all places, good and bad

	// What Survey adds.
	Signatures []string    // what blkid knows, in words: ext4 "data", gpt partition table
	Partitions []Partition // that the kernel knows
	NotZero    string      // where the first byte other than zero is, if not nowhere
}

// Inspect reads the label copies of a device, also while a daemon holds it. Without
// a usable label it returns what it did find together with ErrNoLabel,
// ErrUnread, ErrIncompat or ErrGeometry.
func Inspect(path string) (Report, error) {
	r := Report{Path: path}
	t, err := thisHost().target(path)
	if err != nil {
		return r, fmt.Errorf("inspect %q: %w", path, err)
	}
	r.RealPath, r.Model, r.Serial = t.path, t.model, t.serial
	dev, err := ioengine.Open(path, ioengine.OpenOptions{ReadOnly: true})
	if err != nil {
		return r, fmt.Errorf("inspect %q: %w", path, err)
	}
	r.Geometry = dev.Geometry()
	r.Label, _, r.Copies, err = loadLabel(dev)
	if err = errors.Join(err, dev.Close()); err != nil {
		return r, fmt.Errorf("inspect %q: %w", path, err)
	}
	return r, nil
}

// OpenDevice claims a device for life, and names its holder when somebody else has
// claimed it.
func OpenDevice(path string) (*ioengine.File, error) {
	dev, err := ioengine.Open(path, ioengine.OpenOptions{Exclusive: true})
	if err != nil {
		return nil, explainHeld(path, err)
	}
	return dev, nil
}
