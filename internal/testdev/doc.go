// SPDX-License-Identifier: Apache-2.0

// Package testdev gives tests something real to do I/O on: loop devices with
// direct I/O over preallocated files (Loop), and plain preallocated files
// (File).
//
// A loop device is configured by ioctl and kept by one descriptor with the
// kernel's autoclear flag set: it disappears when the test ends, and also when
// the test process is killed, so a run that dies leaves nothing attached.
// losetup is not needed; root and /dev/loop-control are, and a test without
// them is skipped with the reason.
//
// Concurrency: every function may be called from parallel tests and from
// several test processes at once; a loop number lost to somebody else in
// between is simply tried again.
//
// Errors: whatever is missing on this machine skips the test; whatever fails
// although the machine has it ends the test.
package testdev
