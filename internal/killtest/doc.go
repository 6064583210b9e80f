// SPDX-License-Identifier: Apache-2.0

// Package killtest kills the real daemon with SIGKILL in the middle of stores
// and removes, over and over, and compares what the next start serves with a
// journal of what had been answered. It has only tests: TestKill, which make
// kill runs with more kills.
//
// The device is a loop device where the test may have one, else a file. The engines
// take turns, life by life, where the kernel gives io_uring.
//
// Concurrency: each writer owns keys of its own, so what it knows of a key is
// never shared; between two kills nothing runs but the daemon.
//
// Errors: what the daemon does wrong is counted and fails the test; what the
// harness cannot do ends it.
package killtest
