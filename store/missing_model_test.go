// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

// Whatever is stored, replaced and removed while slabs come and go from start to
// start: a key is what was stored last, or unavailable while its slab is away, and
// the accounts are exact throughout.
func TestSlabsComeAndGo(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(t, func(o *rigOptions) {
			o.slabs, o.slots, o.slotSizes, o.quota = 3, 40, []int64{16 << 10, 8 << 10, 16 << 10}, 1<<20
			o.buffers, o.payload = 4<<20, 1<<20
		})
		defer r.shut()
		version := map[string]int{} // stored last; not there: nothing
		home := map[string]int{}
		keys := names(12)
		size := func(v int) int { return 1000 + 9000*(v%3) }
		away := func(key string) bool { return version[key] > 0 && r.gone[home[key]] != nil }
		stored := 0
		store := func(key string, overwrite bool) {
			want := OK
			if version[key] > 0 && !overwrite && !away(key) {
				want = Exists
			}
			stored++
			got := r.storeVersion(stored, size(stored), StoreOptions{Overwrite: overwrite}, key)[0]
			if got.Status != want {
				rt.Fatalf("store of %q, away %v: %+v, want %v", key, away(key), got, want)
			}
			if want == OK {
				version[key], home[key] = stored, r.homes(key)[key]
			}
			if r.gone[home[key]] != nil && want == OK {
				rt.Fatalf("%q went to slab %d, which is missing", key, home[key])
			}
		}
		check := func() {
			var used int64
			for _, k := range keys {
				want := Missing
				switch {
				case away(k):
					want = Unavailable
				case version[k] > 0:
					want = OK
				}
				if got := r.load(version[k], k)[0]; got != want {
					rt.Fatalf("load of %q on slab %d, version %d, missing %v: %v, want %v", k, home[k], version[k], r.gone, got, want)
				}
				if version[k] > 0 {
					used += r.s.volumes[home[k]].slotBytes(int64(size(version[k])))
				}
			}
			r.s.work.Wait()
			if got := r.used(); got != used {
				rt.Fatalf("%d bytes are used, want %d", got, used)
			}
			r.checkStates()
		}
		for range rapid.IntRange(4, 24).Draw(rt, "steps") {
			key := rapid.SampledFrom(keys).Draw(rt, "key")
			switch rapid.IntRange(0, 4).Draw(rt, "op") {
			case 0, 1:
				store(key, false)
			case 2:
				store(key, true)
			case 3:
				if got := r.remove(false, key); got.Removed > 0 != (version[key] > 0) {
					rt.Fatalf("remove of %q, version %d: %+v", key, version[key], got)
				}
				delete(version, key)
			case 4:
				missing := rapid.IntRange(0, 6).Draw(rt, "missing") // never all three
				gone := map[int]error{}
				for v := range 3 {
					if missing&(1<<v) != 0 {
						gone[v] = fmt.Errorf("away: %w", syscall.ENXIO)
					}
				}
				r.shut()
				r.gone = gone
				r.start()
			}
			check()
		}
	})
}
