// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
)

// checkRelease refuses what the file format knows and this release cannot
// honour: a setting that is read and then ignored is worse than an error. A
// setting at its default promises nothing and passes.
func (c *Config) checkRelease(fs *faults) {
	d := Default()
	refuse := func(set bool, path, what, remedy string) {
		if set {
			fs.add(path, "%s not in this release: %s", what, remedy)
		}
	}
	refuse(c.Eviction != d.Eviction, "eviction", "eviction is", "remove the section, or keep high_watermark 0.95 and low_watermark 0.90; a full slab answers no_space")
	refuse(!slices.Equal(c.SHM.Dirs, d.SHM.Dirs), "shm.dirs", "shared memory is", "remove it, or keep [/dev/shm]")
	refuse(c.SHM.MaxBytes != 0, "shm.max_bytes", "shared memory is", "remove it, or keep 0")
	for i, s := range c.Slabs {
		path := fmt.Sprintf("slabs[%d].", i)
		refuse(s.Discard == "on_init" || s.Discard == "on_free", path+"discard", "discard is", "write off")
	}
	for i, n := range c.Namespaces {
		path := fmt.Sprintf("namespaces[%d].", i)
		refuse(n.MinHits > 0, path+"min_hits", "admission by hits is", "remove it, or keep 0")
		refuse(n.Segment != DefaultNamespace().Segment && n.Segment != exampleSegment(), path+"segment",
			"the staging segment is", "remove it")
	}
}

// exampleSegment is the segment of the documented example, which must load in
// every release; Notes says that it has no effect yet.
func exampleSegment() Segment {
	return Segment{Name: "rawblockd", Size: Auto, Mode: 0o640}
}

// Notes says in sentences which accepted settings have no effect in this release, and
// what else of them is worth knowing. For the log.
func (c *Config) Notes() []string {
	var out []string
	for i, n := range c.Namespaces {
		if n.Segment.Name != "" {
			out = append(out, fmt.Sprintf("namespaces[%d].segment: this release makes no staging segment, so its lease routes are off", i))
		}
	}
	return append(out, c.leaseNotes()...)
}
