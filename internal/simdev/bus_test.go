// SPDX-License-Identifier: Apache-2.0

package simdev

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rawblockd/rawblockd/ioengine"
)

// rate moves a block in a microsecond.
const rate = block * 1e6

// served returns a device of 16 places that takes 100 µs at least.
func served(bandwidth int64) Options {
	return Options{
		Size: 1 << 30, Parallel: 16, Bandwidth: bandwidth,
		Service: func(ioengine.Dir, int) time.Duration { return 100 * time.Microsecond },
	}
}

// read starts a read and returns how long it took, once it has ended.
func read(t *testing.T, d *Device, off int64, bytes int) <-chan time.Duration {
	t.Helper()
	begin, took := time.Now(), make(chan time.Duration, 1)
	mem := aligned(t, bytes, 0)
	go func() {
		if n, err := d.Preadv([][]byte{mem}, off); n != bytes || err != nil {
			t.Errorf("read: got %d, %v", n, err)
		}
		took <- time.Since(begin)
	}()
	return took
}

// TestTimeOfManyTransfers: transfers that ask for a place all at once take exactly
// what the model allows, whichever of its three limits it is.
func TestTimeOfManyTransfers(t *testing.T) {
	const us = time.Microsecond
	cases := []struct {
		n, blocks int
		bandwidth int64
		want      time.Duration
	}{
		{1, 1, 0, 100 * us}, // latency
		{16, 1, 0, 100 * us},
		{17, 1, 0, 200 * us}, // places
		{1000, 256, 0, 6300 * us},
		{1, 1, rate, 100 * us},
		{16, 6, rate, 100 * us},
		{1, 256, rate, 256 * us}, // bandwidth
		{16, 256, rate, 4096 * us},
		{48, 256, rate, 12288 * us},
		{41, 16, rate, 656 * us},
		{1000, 7, 4 * rate, 6300 * us}, // 28 µs a round for its bytes: latency again
		{96, 256, 8 * rate, 3072 * us},
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("%d of %d blocks, %d a second", c.n, c.blocks, c.bandwidth), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := served(c.bandwidth)
				if got := o.Bound(ioengine.Read, c.n, c.blocks*block, 1<<20); got != c.want {
					t.Errorf("bound: got %v, want %v", got, c.want)
				}
				d, begin := New(o), time.Now()
				mem := aligned(t, c.blocks*block, 0)
				var wg sync.WaitGroup
				for i := range c.n {
					wg.Go(func() { _, _ = d.Preadv([][]byte{mem}, int64(i*c.blocks)*block) })
				}
				wg.Wait()
				if got := time.Since(begin); got != c.want {
					t.Errorf("took %v, want %v", got, c.want)
				}
			})
		})
	}
}

// TestBandwidthIsShared: who comes later slows those that are there, and only for as
// long as it stays.
func TestBandwidthIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(Options{Size: 1 << 30, Bandwidth: rate})
		const us = time.Microsecond
		large := read(t, d, 0, 1000*block)
		time.Sleep(100 * us) // fake time: 900 blocks of it are left
		small := read(t, d, 0, 50*block)
		time.Sleep(40 * us) // 880 and 30
		third := read(t, d, 0, 10*block)
		for i, c := range []struct {
			took <-chan time.Duration
			want time.Duration
		}{
			{third, 30 * us},             // three share: leaves 870 and 20
			{small, (40 + 30 + 40) * us}, // two share: leaves 850
			{large, 1060 * us},           // all bytes of all three
		} {
			if got := <-c.took; got != c.want {
				t.Errorf("transfer %d took %v, want %v", i, got, c.want)
			}
		}
		if got := <-read(t, d, 0, 10*block); got != 10*us {
			t.Errorf("alone again: took %v, want 10µs", got)
		}
	})
}

// TestWaitingTransfersTakeNoBandwidth: one that has no place slows nobody.
func TestWaitingTransfersTakeNoBandwidth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(Options{Size: 1 << 30, Bandwidth: rate, Parallel: 2})
		first, second, waits := read(t, d, 0, 100*block), read(t, d, 0, 150*block), (<-chan time.Duration)(nil)
		synctest.Wait()
		waits = read(t, d, 0, 50*block)
		// Two share for 200 µs; the second's last 50 blocks and the third go together.
		for i, c := range []struct {
			took <-chan time.Duration
			want time.Duration
		}{{first, 200}, {second, 300}, {waits, 300}} {
			if got, want := <-c.took, c.want*time.Microsecond; got != want {
				t.Errorf("transfer %d took %v, want %v", i, got, want)
			}
		}
	})
}
