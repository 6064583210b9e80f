// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"sync"
	"time"
)

// Stage is what a request is doing, or waiting for.
type Stage uint8

// The stages. Time in a lock is waiting for it and holding it together; how long
// it is held alone is a metric.
const (
	StageStart  Stage = iota // decoding and deciding
	StageClient              // the connection: a body comes in or an answer goes out
	StageQueue               // memory of the stream budget
	StageLock                // the pin lock
	StageDevice              // reads, writes and flushes, queued or under way
	StageCommit              // rows on their way to the disk
	StageFollow              // another batch stores the same key
	Stages                   // how many there are
)

var stageNames = [Stages]string{"start", "client", "queue", "lock", "device", "commit", "follow"}

// String returns the stage's word in logs and reports.
func (s Stage) String() string {
	if s < Stages {
		return stageNames[s]
	}
	return "unknown"
}

// Trace follows one request through its stages. It is at one stage at a time:
// where I/O overlaps, at the one that the answer waits for. All methods may be
// called concurrently, and on a nil *Trace, which notes nothing.
type Trace struct {
	mu sync.Mutex
	// +checklocks:mu
	stage Stage
	// +checklocks:mu
	since time.Time
	// +checklocks:mu
	spent [Stages]time.Duration
	// +checklocks:mu
	slab string
}

// NewTrace begins a trace at StageStart.
func NewTrace() *Trace { return &Trace{since: time.Now()} }

// At says which stage begins now.
func (t *Trace) At(s Stage) { t.enter(s, "") }

// On is At(StageDevice) on one slab.
func (t *Trace) On(slab string) { t.enter(StageDevice, slab) }

func (t *Trace) enter(s Stage, slab string) {
	if t == nil {
		return
	}
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spent[t.stage] += now.Sub(t.since)
	t.stage, t.since = s, now
	if slab != "" {
		t.slab = slab
	}
}

// TraceReport is where a request is and has been.
type TraceReport struct {
	Stage Stage
	Slab  string                // the last one that it waited for; empty: none yet
	Spent [Stages]time.Duration // by stage, the present one up to now
}

// Report may be called at any time.
func (t *Trace) Report() TraceReport {
	if t == nil {
		return TraceReport{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r := TraceReport{Stage: t.stage, Slab: t.slab, Spent: t.spent}
	r.Spent[t.stage] += time.Since(t.since)
	return r
}

type traceKey struct{}

// WithTrace returns a context whose request notes its stages in t.
func WithTrace(ctx context.Context, t *Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}

// traceOf returns the trace of ctx, or nil.
func traceOf(ctx context.Context) *Trace {
	t, _ := ctx.Value(traceKey{}).(*Trace)
	return t
}
