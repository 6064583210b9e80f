// SPDX-License-Identifier: Apache-2.0

package simdev

// InFlight returns how many transfers are inside the device now, served,
// waiting for a place or hanging.
func (d *Device) InFlight() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.inFlight
}

// MaxInFlight returns the highest InFlight so far.
func (d *Device) MaxInFlight() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.maxInFlight
}

// MaxInFlightBytes returns the most bytes that were inside the device at once.
func (d *Device) MaxInFlightBytes() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.maxBytes
}

// AwaitInFlight returns when at least n transfers are inside the device.
func (d *Device) AwaitInFlight(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.inFlight < n {
		d.changed.Wait()
	}
}

// Counts returns how often the device was asked so far.
func (d *Device) Counts() Counts {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.count
}

// Peek returns a copy of n bytes at off as a read would see them, past all
// faults and without time.
func (d *Device) Peek(off int64, n int) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	data := make([]byte, n)
	d.image.read([][]byte{data}, off)
	return data
}

// Poke puts data at off, durably, past all faults and without time.
func (d *Device) Poke(off int64, data []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := extent{off: off, data: data}
	d.image.write(w)
	if d.o.Volatile {
		d.cache.poke(w)
	}
}
