// SPDX-License-Identifier: Apache-2.0

// Package bench measures what an engine makes of a device, with fio beside it.
//
// Run carries out a Plan on a device and returns a Report: a Row for each figure.
// A figure is measured in rounds. A round runs every side once, ours and fio's, each
// for a window of about a second, and every other round runs them backwards: what
// drifts on the machine drifts through both sides of a pair. What counts is the
// median of the ratios of the pairs, with its 90 % interval by order statistics. Of mix
// and beside it is one ratio of p99s, each over the latencies of all rounds together,
// with an interval by bootstrap (interval.go): a row's Statistic says which. Rounds are
// added until that interval is narrow or the time is up (rounds.go).
//
// A window of ours (window.go) is counted as fio counts its own: from the end of the
// ramp to the last completion, with the depth kept up by submitting again what has
// completed. Batches (Layout, sweep, batched) are submitted by callers that wait for
// all of a batch, and are counted from the end of one batch to the end of another.
//
// The device is overwritten: callers have asked before (cmd/rawblockd), and every engine
// and fio were started once.
//
// # Concurrency
//
// A Plan is run by one goroutine, which has waited for what it started when Run
// returns: fio, callers, engines. Hooks run on that goroutine. The parts of a window
// that several goroutines of an engine meet in are each op's own, but for the counters
// in slot and window, which are atomic or under window.mu.
//
// # Errors
//
// ErrPlan is what can be seen to be impossible before anything is done, ErrNotDirect a
// device without direct I/O, ErrFio whatever fio did not do. An op that fails ends
// the run with its own error. When ctx ends, Run returns the rows it has with ctx's
// error.
package bench
