// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"

	"golang.org/x/sys/unix"
)

// ownDescriptors are what the daemon keeps for itself: the metadata's table files,
// of which Pebble holds up to 256 open, its logs, devices and client buffers.
const ownDescriptors = 512

// mostConns is the number of connections that the descriptors of this process leave
// room for: all but its own, and half of them where there are few.
func mostConns() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return ownDescriptors
	}
	all := min(limit.Cur, math.MaxInt32) // unlimited is the largest number there is
	return int(all - min(ownDescriptors, all/2))
}
