// SPDX-License-Identifier: Apache-2.0

package slab

import "github.com/rawblockd/rawblockd/ioengine"

// Claimable reports whether OpenDevice could claim a device now, and names its
// holder if it could not. It claims it for reading and lets go at once: nothing is
// written, and udev, which looks again at what was open for writing, hears of
// nothing. While somebody has the device it takes as long as OpenDevice.
func Claimable(path string) error {
	dev, err := ioengine.Open(path, ioengine.OpenOptions{Exclusive: true, ReadOnly: true})
	if err != nil {
		return explainHeld(path, err)
	}
	return dev.Close()
}
