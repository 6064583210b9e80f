// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"time"

	"github.com/rawblockd/rawblockd/ioengine"
)

// deadLimit is how many loads in a row fail before a slab is offline although its
// label can be read: what keeps labels and loses all else serves nobody.
const deadLimit = 8 * failLimit

// unread notes a read that the device failed, and tells whether failed reads in a
// row make it a suspect: then confirm must be called. One bad region fails many
// neighbours in a row, so a row alone says nothing about the rest of the slab; and
// of the reads of a scrub, which walks such a region to its end, no number does.
func (v *volume) unread(err error, by string) (suspect bool) {
	if !deviceFault(err) {
		return false
	}
	h := &v.health
	h.ops.Add(1)
	h.errs.Add(1)
	run := &h.run[ioengine.Read]
	if by == byScrub {
		run = &h.scrubRun
	}
	n := run.Add(1)
	switch {
	case isGone(err):
		v.goOffline(fmt.Sprintf("its device is gone: %v; restart the daemon when it is back", err))
	case by != byScrub && n >= deadLimit:
		v.goOffline(fmt.Sprintf("every read fails, the last one: %v", err))
	case n%failLimit == 0:
		h.remember(err)
		v.say(func(c *condition) {
			suspect = c.dead == "" && !c.suspect
			c.suspect = c.suspect || suspect
		})
	default:
		h.remember(err)
	}
	v.wake()
	return suspect
}

// confirm reads the label of a suspect: with it the device lives, and what failed
// are places on it. It may hang with the device.
func (v *volume) confirm(last error) {
	err := v.slab.CheckLabel()
	v.say(func(c *condition) {
		c.suspect = false
		if err != nil && c.dead == "" {
			c.dead, c.probeAt = fmt.Sprintf("every read fails, the last one: %v; nor can its label be read: %v", last, err), time.Now().Add(probeEvery)
		}
	})
	v.wake()
}

// wearOut notes that errors have put as many slots out of use as they may.
func (v *volume) wearOut() {
	c := v.slab.Counts()
	why := fmt.Sprintf("%d of %d slots are out of use after errors and no more will be, so bad ones are stored to again: replace its device", c.Quarantined, c.Total)
	v.say(func(c *condition) { c.worn = why })
}
