// SPDX-License-Identifier: Apache-2.0

// Package simdev is a block device in memory, for tests: an ioengine.Device
// that fails in the ways a real one does, and takes as long as a real one does.
//
// Faults (fault.go) are set at any time: EIO on a range or of the k-th transfer from
// now, a failed flush, transfers that end early, all of them or one at a given byte,
// EAGAIN once or at every place, an op that hangs until it is released, a flipped
// bit, a write that is acknowledged and lost or lands somewhere else, a device that
// is gone or has turned read-only.
//
// Time: every transfer holds one of Options.Parallel places for Options.Service at
// least, and the ones that hold a place share Options.Bandwidth (bus.go). Inside a
// testing/synctest bubble that is fake time, so a test can say exactly how long a
// batch takes: Options.Bound. The device must then be made inside the bubble.
//
// Power cuts (crash.go): with Options.Volatile the device remembers everything
// written since the last flush, and Crash makes the device that is found after
// a power cut, with any version of each block.
//
// # Concurrency
//
// All methods may be called at any time from any goroutine. A flush covers the
// writes that had completed when it began, and no others.
//
// # Lock ordering
//
// Device.mu and bus.mu are never held together; nothing blocks under them.
//
// # Errors
//
// As from the kernel: syscall numbers, EINVAL for what is not aligned, a count
// of 0 at the end of the device for reads, ENOSPC for writes.
package simdev
