// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/rawblockd/rawblockd/internal/mutant"
)

// Commit applies b, all or nothing, and spends it. With sync a nil means that b
// and everything committed before it is durable, also for an empty b; without,
// that it is visible and may be lost even by kill −9. ErrFailed leaves b's
// outcome unknown until the next start.
func (db *DB) Commit(b *Batch, sync bool) error {
	if b.err != nil {
		return fmt.Errorf("commit metadata: %w", b.err)
	}
	if err := db.fail.err(); err != nil {
		return err
	}
	if b.n == 0 {
		if sync {
			return db.Sync()
		}
		return nil
	}
	wo := pebble.NoSync
	if sync {
		wo = pebble.Sync
	}
	if err := db.applied(func() error { return db.pb.Apply(b.pb, wo) }); err != nil {
		return err // b stays with Pebble: its pipeline may still hold it
	}
	err := b.pb.Close()
	b.pb = nil
	if err != nil {
		return fmt.Errorf("commit metadata: %w", err)
	}
	return nil
}

// Sync makes everything committed so far durable.
func (db *DB) Sync() error {
	if err := db.fail.err(); err != nil {
		return err
	}
	return db.applied(func() error { return db.pb.LogData(nil, pebble.Sync) })
}

// applied runs one commit and believes its nil only if metaFailed is unset
// afterwards. The order matters: the breaker sets it before Pebble hears back
// from the file system, so no commit that rests on a swallowed write gets by.
func (db *DB) applied(commit func() error) error {
	if mutant.On(mutant.H34) {
		return db.appliedMutant(commit)
	}
	err := commit()
	if ferr := db.fail.err(); ferr != nil {
		return ferr
	}
	if err != nil {
		return fmt.Errorf("commit metadata: %w", err)
	}
	return nil
}

// appliedMutant takes Pebble at its word. Pebble panics with its commit lock
// held once a failed log's block is full; a campaign must outlive that, so the
// DB is given up then.
func (db *DB) appliedMutant(commit func() error) (err error) {
	if db.wedged.Load() {
		return ErrFailed
	}
	defer func() {
		if r := recover(); r != nil {
			db.wedged.Store(true)
			err = fmt.Errorf("%w: %v", ErrFailed, r)
		}
	}()
	return commit()
}
