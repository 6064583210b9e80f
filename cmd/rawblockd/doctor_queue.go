// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/slab"
)

// sysDisk is where sysfs speaks of a block device. Its queue is the whole
// disk's.
type sysDisk struct {
	dir   string // of the device itself; "": sysfs says nothing of it
	whole string // of the disk that it is, or is a partition of
}

func (d *doctor) disk(path string) sysDisk {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return sysDisk{}
	}
	dir, err := filepath.EvalSymlinks(filepath.Join(d.sys, "dev/block", fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))))
	if err != nil {
		return sysDisk{}
	}
	if _, err := os.Stat(filepath.Join(dir, "partition")); err == nil {
		return sysDisk{dir, filepath.Dir(dir)}
	}
	return sysDisk{dir, dir}
}

func (s sysDisk) line(file string) string { return readLine(filepath.Join(s.dir, file)) }

func (s sysDisk) queue(file string) string { return readLine(filepath.Join(s.whole, "queue", file)) }

// start is the byte at which a partition begins.
func (s sysDisk) start() int64 {
	n, err := strconv.ParseInt(s.line("start"), 10, 64)
	if err != nil {
		return 0
	}
	return n * 512
}

// checkQueue gives hints from sysfs: a disk that spins, a scheduler that sorts
// what an SSD takes in any order, a partition that begins inside a block.
func (d *doctor) checkQueue(s sysDisk, r slab.Report) {
	const name = "queue"
	if s.dir == "" {
		d.ok(name, "sysfs says nothing of it")
		return
	}
	disk := filepath.Base(s.whole)
	scheduler := chosen(s.queue("scheduler"))
	loop := strings.HasPrefix(disk, "loop") // what lies under it has a queue of its own
	switch {
	case s.start()%int64(r.Geometry.Physical) != 0:
		d.warn(name, "make the partition anew at a multiple of 1 MiB", "the partition begins at byte %d, inside a physical block of %d bytes: every write becomes two", s.start(), r.Geometry.Physical)
	case s.queue("rotational") == "1" && !loop:
		d.warn(name, "use an NVMe SSD; if it is one, behind a hypervisor, run: echo 0 > /sys/block/"+disk+"/queue/rotational", "%s says that it is a spinning disk", disk)
	case scheduler != "" && scheduler != "none" && !loop:
		d.warn(name, "echo none > /sys/block/"+disk+"/queue/scheduler (a udev rule keeps it)", "%s has the I/O scheduler %s, which costs an SSD throughput", disk, scheduler)
	default:
		d.ok(name, "%s: scheduler %s, write cache %s", disk, firstOf(scheduler, "unknown"), firstOf(s.queue("write_cache"), "unknown"))
	}
}

// chosen returns the one in brackets, as in "[none] mq-deadline".
func chosen(schedulers string) string {
	_, rest, ok := strings.Cut(schedulers, "[")
	name, _, closed := strings.Cut(rest, "]")
	if !ok || !closed {
		return schedulers
	}
	return name
}
