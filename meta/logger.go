// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"fmt"
	"log/slog"

	"github.com/cockroachdb/pebble/v2"
)

// pebbleLog is Pebble's logger.
type pebbleLog struct {
	fail *failure
	log  *slog.Logger
}

// Infof drops Pebble's running commentary before it is formatted.
func (pebbleLog) Infof(string, ...any) {}

// Errorf passes Pebble's complaints on.
func (l pebbleLog) Errorf(format string, args ...any) {
	l.log.Warn("pebble: " + fmt.Sprintf(format, args...))
}

// Fatalf sets metaFailed. It returns, contrary to its name: the breaker keeps
// whatever Pebble does next off the disk, and the commit that led here is
// refused by the check after it.
func (l pebbleLog) Fatalf(format string, args ...any) {
	l.fail.set(fmt.Sprintf(format, args...))
}

// events turns the reports of Pebble's background work into metaFailed. With
// the breaker in place a background error is no failed write: it is a table
// that cannot be read back.
func events(fail *failure, log *slog.Logger) *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			fail.set(fmt.Sprintf("background work: %v", err))
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			fail.set(fmt.Sprintf("corrupt file %s: %v", info.Path, info.Details))
		},
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			log.Warn("metadata commits wait for the disk", "reason", info.Reason)
		},
	}
}

// scheduler is Pebble's own, but grants nothing once metaFailed is set: in the
// dream behind the breaker a compaction would miss the tables of dreamt
// flushes, fail, and be tried again without end.
type scheduler struct {
	*pebble.ConcurrencyLimitScheduler
	fail *failure
}

// newScheduler leaves out Pebble's ten-times-a-second poll for a changed
// concurrency limit; ours is constant, and a finished compaction grants the next.
func newScheduler(fail *failure) pebble.CompactionScheduler {
	return scheduler{pebble.NewConcurrencyLimitSchedulerWithNoPeriodicGrantingForTest(), fail}
}

// Register hands the inner scheduler a DB that allows no compaction after a failure.
func (s scheduler) Register(n int, db pebble.DBForCompaction) {
	s.ConcurrencyLimitScheduler.Register(n, gatedDB{db, s.fail})
}

type gatedDB struct {
	pebble.DBForCompaction
	fail *failure
}

// GetAllowedWithoutPermission is the limit that the scheduler asks for before each grant.
func (g gatedDB) GetAllowedWithoutPermission() int {
	if _, failed := g.fail.get(); failed {
		return 0
	}
	return g.DBForCompaction.GetAllowedWithoutPermission()
}
