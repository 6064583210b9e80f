// SPDX-License-Identifier: Apache-2.0

package ring

// Probe makes a small ring and ends it: nil says that this process may have one with
// every feature and opcode that Submit needs.
func Probe() error {
	r, err := open(1)
	if err != nil {
		return err
	}
	return r.Close()
}
