// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rawblockd/rawblockd/config"
)

// bytesPerSlot is what the index keeps of a slot in RAM.
const bytesPerSlot = 64

// memoryNeed is what a configuration can take at once. Bodies are garbage before it is
// collected, so those of json_bytes take twice as much.
func (d *doctor) memoryNeed() int64 {
	need := int64(d.cfg.Limits.StreamBytes+2*d.cfg.Limits.JSONBytes+d.cfg.Meta.CacheSize) + d.slots*bytesPerSlot
	for _, s := range d.cfg.Slabs {
		need += int64(s.InflightBytes)
	}
	return need
}

// checkMemory compares the need with the cgroup's limit and with the host's
// memory.
func (d *doctor) checkMemory() {
	const name = "memory"
	need := d.memoryNeed()
	limit, where := d.memoryLimit()
	remedy := "give it more (MemoryMax= of the unit, limits.memory of the pod), or lower limits.stream_bytes, limits.json_bytes, slabs.inflight_bytes or meta.cache_size"
	if total := d.meminfo("MemTotal:"); total > 0 && total < limit {
		limit, where = total, "this host"
		remedy = "lower limits.stream_bytes, limits.json_bytes, slabs.inflight_bytes or meta.cache_size"
	}
	const what = "limits.stream_bytes, twice limits.json_bytes, inflight_bytes of each slab, meta.cache_size and 64 B for each of %s slots"
	switch free := d.meminfo("MemAvailable:"); {
	case limit == math.MaxInt64:
		d.warn(name, "compare the need with what the host has", "the limit is not known; %s are needed: "+what, size(need), count(d.slots))
	case limit < need:
		d.fail(name, remedy, "%s has %s, but up to %s are needed: "+what, where, size(limit), size(need), count(d.slots))
	case limit-limit/5 < need:
		d.warn(name, remedy, "%s has %s, and up to %s of it are needed, which leaves little for the rest: "+what, where, size(limit), size(need), count(d.slots))
	case free > 0 && free < need && d.own == nil:
		d.warn(name, "stop what else uses memory, or lower limits.stream_bytes", "only %s of this host's memory is available now, and up to %s are needed: "+what, size(free), size(need), count(d.slots))
	default:
		d.ok(name, "%s has %s, up to %s are needed: "+what, where, size(limit), size(need), count(d.slots))
	}
}

// checkLargePages: the memory of payloads asks for large pages. Without them the kernel
// looks up 512 pages where one would do, for each transfer that is not registered.
func (d *doctor) checkLargePages() {
	const name, file = "large pages", "kernel/mm/transparent_hugepage/enabled"
	switch text := readLine(filepath.Join(d.sys, file)); {
	case text == "":
		d.ok(name, "this kernel has none")
	case strings.Contains(text, "[never]"):
		d.warn(name, "echo madvise > "+filepath.Join("/sys", file)+", and transparent_hugepage=madvise on the kernel's command line to keep it", "switched off (transparent_hugepage is never): payloads cost about twice the CPU to move by pread")
	default:
		d.ok(name, "to be had (transparent_hugepage: %s)", text)
	}
}

// meminfo returns a line of /proc/meminfo in bytes; 0: it is not there.
func (d *doctor) meminfo(name string) int64 {
	kb, err := strconv.ParseInt(valueOf(readText(filepath.Join(d.proc, "meminfo")), name), 10, 64)
	if err != nil {
		return 0
	}
	return kb << 10
}

// memoryLimit returns the lowest limit of this process's cgroup and of those
// around it; math.MaxInt64: none. A service has a cgroup of its own, which only
// a doctor that runs in it can see.
func (d *doctor) memoryLimit() (limit int64, where string) {
	limit = math.MaxInt64
	lower := func(text, dir string) {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n < limit && n < 1<<60 { // v1 writes "none" as a huge number
			limit, where = n, "the cgroup "+dir
		}
	}
	root := filepath.Join(d.sys, "fs/cgroup")
	for line := range strings.Lines(readText(filepath.Join(d.proc, "self/cgroup"))) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		switch {
		case f[0] == "0":
			upwards(root, f[2], func(dir string) { lower(readLine(filepath.Join(dir, "memory.max")), dir) })
		case slices.Contains(strings.Split(f[1], ","), "memory"):
			upwards(filepath.Join(root, "memory"), f[2], func(dir string) { lower(readLine(filepath.Join(dir, "memory.limit_in_bytes")), dir) })
		}
	}
	return limit, where
}

// upwards calls visit for the folder of a cgroup and each above it.
func upwards(root, path string, visit func(dir string)) {
	for path = filepath.Join("/", path); ; path = filepath.Dir(path) {
		visit(filepath.Join(root, path))
		if path == "/" {
			return
		}
	}
}

// containerSHM is the /dev/shm that container engines make unless they are told
// otherwise.
const containerSHM = 64 << 20

// checkSHM looks at the folders of client buffers and staging segments.
func (d *doctor) checkSHM() {
	for _, dir := range d.cfg.SHM.Dirs {
		s, err := spaceAt(dir)
		remedy := "mount a tmpfs there, as in: mount -t tmpfs -o size=16g tmpfs " + dir + "; or correct shm.dirs"
		switch {
		case err != nil:
			d.warn(dir, remedy, "cannot be looked at: %v; no shared memory with clients", err)
		case s.kind != "memory":
			d.warn(dir, remedy, "is no memory file system, so buffers in it are written to a disk")
		case s.total <= containerSHM:
			d.warn(dir, "give it more: mount -o remount,size=16g "+dir+", --shm-size for a container, an emptyDir with medium Memory for a pod",
				"has %s, room for few payloads of %s", size(s.total), config.Size(d.cfg.Limits.Payload))
		case s.free < s.total/10:
			d.warn(dir, "remove what nobody uses: ls -l "+dir, "%s of %s are free", size(s.free), size(s.total))
		default:
			d.ok(dir, "%s of %s are free", size(s.free), size(s.total))
		}
	}
}
