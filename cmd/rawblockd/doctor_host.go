// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/config"
)

// engines returns the slabs that io_uring may, or must, serve.
func (d *doctor) engines() (may, must []config.Slab) {
	for _, s := range d.cfg.Slabs {
		if mayUring(s) {
			may = append(may, s)
		}
		if s.Engine == "uring" {
			must = append(must, s)
		}
	}
	return may, must
}

// checkUring asks the kernel for a ring of the largest slabs.queue_depth, if a slab may
// use one: its memory counts as locked too.
func (d *doctor) checkUring() {
	const name = "io_uring"
	may, must := d.engines()
	if len(may) == 0 && len(d.cfg.Slabs) > 0 {
		d.ok(name, "no slab uses it: on files engine auto is pread")
		return
	}
	depth := 1
	for _, s := range may {
		depth = max(depth, s.QueueDepth)
	}
	err := d.probeUring(depth)
	if err == nil {
		d.ok(name, "the kernel (%s) gives rings of %d", release(), depth)
		return
	}
	verdict, then := verdictWarn, "engine auto serves on pread"
	if len(must) > 0 {
		verdict, then = verdictFail, fmt.Sprintf("slab %s has engine uring and would not start", must[0].Name)
	}
	why, remedy, _ := strings.Cut(err.Error(), "; ")
	d.note(verdict, name, remedy, "not to be had (%s): %s", why, then)
}

func release() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "of unknown release"
	}
	return unix.ByteSliceToString(u.Release[:])
}

// checkMemlock: io_uring registers the memory of payloads, for each slab anew, which
// counts as locked; without the room for it every transfer costs more.
func (d *doctor) checkMemlock() {
	const name = "locked memory"
	may, _ := d.engines()
	need := uint64(len(may)) * uint64(d.cfg.Limits.StreamBytes)
	l, err := d.rlimit(unix.RLIMIT_MEMLOCK)
	switch {
	case err != nil:
		d.warn(name, "look at it with: ulimit -l", "RLIMIT_MEMLOCK: %v", err)
	case need == 0:
		d.ok(name, "RLIMIT_MEMLOCK is %s; no slab uses io_uring, which alone needs it", limitText(l.Cur, bytesText))
	case l.Cur >= need:
		d.ok(name, "RLIMIT_MEMLOCK is %s; io_uring needs %s", limitText(l.Cur, bytesText), size(int64(need)))
	case d.mayLock():
		d.ok(name, "RLIMIT_MEMLOCK is %s, and CAP_IPC_LOCK lifts it", limitText(l.Cur, bytesText))
	default:
		d.warn(name, "LimitMEMLOCK=infinity in the unit, --ulimit memlock=-1 for a container",
			"RLIMIT_MEMLOCK is %s, less than limits.stream_bytes for each slab that may use io_uring (%s), so it would run without registered memory, at more CPU", limitText(l.Cur, bytesText), size(int64(need)))
	}
}

// mayLock tells whether this process has CAP_IPC_LOCK, which no limit binds.
func (d *doctor) mayLock() bool {
	caps, err := strconv.ParseUint(valueOf(readText(filepath.Join(d.proc, "self/status")), "CapEff:"), 16, 64)
	return err == nil && caps&(1<<unix.CAP_IPC_LOCK) != 0
}

// Descriptors the daemon needs beside those of clients: Pebble's tables, the
// devices, listeners and what the runtime has.
const (
	filesOfMeta = 256
	filesOfSlab = 8
	filesOfRest = 64
)

func (d *doctor) checkFiles() {
	const name = "open files"
	own := uint64(filesOfMeta + filesOfSlab*len(d.cfg.Slabs) + filesOfRest)
	need := own + uint64(d.cfg.Limits.Requests)
	const remedy = "LimitNOFILE=65536 in the unit, --ulimit nofile=65536 for a container"
	l, err := d.rlimit(unix.RLIMIT_NOFILE)
	switch {
	case err != nil:
		d.warn(name, "look at it with: ulimit -Hn", "RLIMIT_NOFILE: %v", err)
	case l.Max < own:
		d.fail(name, remedy, "RLIMIT_NOFILE is %s, and the daemon alone needs %d", limitText(l.Max, count), own)
	case l.Max < need:
		d.warn(name, remedy, "RLIMIT_NOFILE is %s, less than the %d that limits.requests (%d) clients at once need", limitText(l.Max, count), need, d.cfg.Limits.Requests)
	default:
		d.ok(name, "RLIMIT_NOFILE is %s, %s are needed", limitText(l.Max, count), count(need))
	}
}

// limitText writes a resource limit.
func limitText(n uint64, text func(uint64) string) string {
	if n == unix.RLIM_INFINITY {
		return "unlimited"
	}
	return text(n)
}

func bytesText(n uint64) string { return size(int64(n)) }
