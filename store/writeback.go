// SPDX-License-Identifier: Apache-2.0

package store

// This file is mutant H25, the deferred write-back of whole rows: what a touch
// must never do. It is compiled away without the build tag "mutants".

// writeBackLocked keeps the rows of a touch for the next one and returns those of
// the last, whatever became of their entries since.
// +checklocks:s.mu
func (s *Store) writeBackLocked(rows []setRow) []setRow {
	late := s.late
	s.late = append([]setRow(nil), rows...)
	return late
}
