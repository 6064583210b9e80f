// SPDX-License-Identifier: Apache-2.0

//go:build !mutants

package mutant

// Enabled is false: this build has no switches.
const Enabled = false

// On is always false.
func On(ID) bool { return false }
