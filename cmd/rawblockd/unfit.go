// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"

	"github.com/rawblockd/rawblockd/config"
	"github.com/rawblockd/rawblockd/meta"
	"github.com/rawblockd/rawblockd/slab"
)

// unfitSlab is a slab whose device is there and has no label that can be read, or is
// smaller than its label says: a drive that has failed, or a new one in its place.
type unfitSlab struct {
	config.Slab
	err error // of slab.Open
}

// admitUnfit decides what becomes of the slabs with unfit devices. One that was served
// before is missing, as if its drive were away; nothing is written to the device. What
// was never served is more likely a wrong path, and refused.
func (d *daemon) admitUnfit() error {
	if len(d.unfit) == 0 {
		return nil
	}
	records, err := d.meta.Slabs()
	d.mu.Lock()
	devices := d.devices
	d.mu.Unlock()
	opened := map[[16]byte]bool{}
	for _, v := range devices {
		opened[v.slab.Label().Incarnation] = true
	}
	for _, u := range d.unfit {
		if servedBefore(u.Slab, u.err, records, opened) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%w (not all is known of the slabs that were served before: %w)", u.err, err)
		}
		return u.err
	}
	return nil
}

// servedBefore tells whether the metadata knows a slab by the name of this one, such
// that the device which failed with err can be the rest of it, or stands in its place.
// What is opened under another name is no part of it any more.
func servedBefore(s config.Slab, err error, records []meta.SlabRecord, opened map[[16]byte]bool) bool {
	var short *slab.TruncatedError
	labelled := errors.As(err, &short)
	for _, r := range records {
		if r.Name != s.Name || opened[r.Inc] {
			continue
		}
		if !labelled || short.Incarnation == r.Inc && short.SlotSize == int64(s.SlotSize) {
			return true
		}
	}
	return false
}

// missingAdvice says what to do about a slab that is missing.
func missingAdvice(device string, err error) string {
	var short *slab.TruncatedError
	switch {
	case errors.As(err, &short):
		return fmt.Sprintf("give the device its size back (%s bytes), or make a new slab of it and lose its data: rawblockd init %s --wipe; then restart the daemon", count(short.Need), device)
	case errors.Is(err, slab.ErrNoLabel):
		return "put the drive that was there back, or make a slab of the new one and give up what the old one had; then restart the daemon"
	}
	return "plug the drive in, or put a new one in its place and make a slab of it (rawblockd init " + device + "); then restart the daemon"
}
