// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"

	"github.com/rawblockd/rawblockd/config"
	"github.com/rawblockd/rawblockd/meta"
	"github.com/rawblockd/rawblockd/slab"
)

// lostSlab is a slab that has no device to be served from.
type lostSlab struct {
	config.Slab
	err error
	at  int // of the failure in doctor.found
}

// lose notes that the last failure may cost no more than its slab, which came to err.
func (d *doctor) lose(s config.Slab, err error) {
	if slab.Gone(err) || slab.Unfit(err) {
		d.lost = append(d.lost, lostSlab{s, err, len(d.found) - 1})
	}
}

// judgeLost makes warnings of what serve goes without: see openSlabs and admitUnfit.
// seen are the incarnations that are there.
func (d *doctor) judgeLost(seen map[[16]byte]string) {
	failed := map[string]bool{}
	for _, f := range d.found {
		if f.Verdict == verdictFail {
			failed[f.Slab] = true
		}
	}
	if len(d.lost) == 0 || !slices.ContainsFunc(d.cfg.Slabs, func(s config.Slab) bool { return !failed[s.Name] }) {
		return
	}
	there := map[[16]byte]bool{}
	for inc := range seen {
		there[inc] = true
	}
	known, err := d.knownSlabs()
	for _, l := range d.lost {
		f, served := &d.found[l.at], servedBefore(l.Slab, l.err, known, there)
		switch {
		case served:
			f.Remedy = missingAdvice(l.Device, l.err)
		case !slab.Gone(l.err):
			if err != nil {
				f.Detail += "; whether it was a slab that was served before is not known: " + oneLine(err)
			}
			continue // serve takes the path for wrong
		}
		f.Verdict = verdictWarn
		f.Detail += "; the others are served without it"
		if served {
			f.Detail += ", its keys are unavailable"
		}
	}
}

// knownSlabs returns what the metadata, or the daemon that has it open, knows of slabs.
func (d *doctor) knownSlabs() ([]meta.SlabRecord, error) {
	if d.own != nil {
		return d.own.slabs, nil
	}
	path := d.cfg.Meta.Path
	found, err := meta.Exists(nil, path)
	if _, held := meta.LockedBy(path); held || !found || err != nil {
		return nil, nil // checkMeta says it
	}
	return meta.KnownSlabs(nil, path)
}
