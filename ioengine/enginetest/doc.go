// SPDX-License-Identifier: Apache-2.0

// Package enginetest is what every ioengine.Engine has to pass.
//
// Run puts an engine on simulated devices and makes them fail; RunDevice puts
// it on any device and asks for what needs no faults, so that the same promises
// are tested against the kernel.
//
// Nothing in these measures time or sleeps: what has to be under way is made to hang,
// and what has to have ended is waited for. An engine that never answers runs into
// the test's timeout. RunInFakeTime is about time, and exact: it asks when an engine
// answers, on devices of a known latency and bandwidth.
//
// Ring stands in for the kernel under an engine of io_uring.
//
// # Concurrency
//
// Each case has an engine and a device of its own.
//
// # Errors
//
// Reported on the testing.T of the case.
package enginetest
