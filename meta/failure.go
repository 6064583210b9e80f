// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/rawblockd/rawblockd/internal/mutant"
)

// failure is the sticky metaFailed with its reason. It is set at most once and
// never cleared.
type failure struct {
	reason atomic.Pointer[string]
	log    *slog.Logger
	fatal  func(reason string)
}

// set records the first failure; later ones are its consequences and only logged
// at debug. Whoever is told by fatal also logs it.
func (f *failure) set(reason string) {
	if !f.reason.CompareAndSwap(nil, &reason) {
		f.log.Debug("metadata store failed before", "consequence", reason)
		return
	}
	if f.fatal != nil {
		f.fatal(reason)
		return
	}
	f.log.Error("metadata store failed: no change is accepted until the next start", "reason", reason)
}

func (f *failure) get() (reason string, failed bool) {
	if p := f.reason.Load(); p != nil {
		return *p, true
	}
	return "", false
}

// err returns ErrFailed with the reason once the failure is set. The mutant of
// H34 believes whatever Pebble said instead.
func (f *failure) err() error {
	reason, failed := f.get()
	if !failed || mutant.On(mutant.H34) {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrFailed, reason)
}
