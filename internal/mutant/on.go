// SPDX-License-Identifier: Apache-2.0

//go:build mutants

package mutant

import "sync/atomic"

// Enabled is true: this build is for the crash campaign only.
const Enabled = true

var current atomic.Uint32

// On reports whether the cure of id is switched off.
func On(id ID) bool { return ID(current.Load()) == id }

// Set switches the cure of id off, and every other one on.
func Set(id ID) { current.Store(uint32(id)) }
