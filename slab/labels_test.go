// SPDX-License-Identifier: Apache-2.0

package slab

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rawblockd/rawblockd/internal/simdev"
	"github.com/rawblockd/rawblockd/ioengine"
)

func TestGeometry(t *testing.T) {
	for _, tc := range []struct {
		size      int64
		optimal   int
		slot      int64
		zone      int64
		slots     uint32
		lastLabel int64
	}{
		{4 * mib, 0, 4 * kib, 4 * kib, 2 * mib / (8 * kib), 3 * mib},
		{4*mib + 512*kib, 0, 4 * kib, 4 * kib, 2 * mib / (8 * kib), 3 * mib}, // a ragged end is not used
		{64 * mib, 512, 2 * mib, 4 * kib, 30, 63 * mib},
		{64 * mib, 6000, 2 * mib, 8 * kib, 30, 63 * mib},
		{64 * mib, 128 * kib, 2 * mib, 64 * kib, 30, 63 * mib},
		{67 * mib, 0, 64 * mib, 4 * kib, 1, 66 * mib},
	} {
		dev := simdev.New(simdev.Options{Size: tc.size, OptimalIO: tc.optimal})
		l := mustInit(t, dev, InitOptions{SlotSize: tc.slot})
		if l.HeaderZone != tc.zone || l.SlotCount != tc.slots || l.Stride != tc.zone+tc.slot {
			t.Errorf("%+v: got zone %d, stride %d, %d slots", tc, l.HeaderZone, l.Stride, l.SlotCount)
		}
		if _, err := DecodeLabel(dev.Peek(tc.lastLabel, block)); err != nil {
			t.Errorf("%+v: label at %d: %v", tc, tc.lastLabel, err)
		}
		if got := l.payloadOffset(0) % tc.zone; got != 0 && tc.zone < 64*kib {
			t.Errorf("%+v: payload starts %d behind a boundary", tc, got)
		}
	}
}

func TestInitDeviceRefusesGeometry(t *testing.T) {
	for _, tc := range []struct {
		name string
		dev  simdev.Options
		init InitOptions
		want error
		text string
	}{
		{"too small", simdev.Options{Size: 3 * mib}, InitOptions{}, ErrTooSmall, "5 MiB (5242880 bytes)"},
		{"tiny", simdev.Options{Size: 64 * kib}, InitOptions{SlotSize: 4 * kib}, ErrTooSmall, "3 MiB"},
		{"slot of 1 KiB", simdev.Options{Size: 64 * mib}, InitOptions{SlotSize: kib}, ErrOption, "4 KiB"},
		{"slot of 6 KiB", simdev.Options{Size: 64 * mib}, InitOptions{SlotSize: 6 * kib}, ErrOption, "4 KiB"},
		{"slot of 128 MiB", simdev.Options{Size: 64 * mib}, InitOptions{SlotSize: 128 * mib}, ErrOption, "64 MiB"},
		{"blocks of 16 KiB", simdev.Options{Size: 64 * mib, Block: 16 * kib}, InitOptions{}, ErrBlocks, "16384"},
		{"long name", simdev.Options{Size: 64 * mib}, InitOptions{Name: strings.Repeat("x", 65)}, ErrOption, "65"},
	} {
		dev := simdev.New(tc.dev)
		_, err := InitDevice(dev, tc.init)
		if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%s: got %v, want %v with %q", tc.name, err, tc.want, tc.text)
		}
		if c := dev.Counts(); c.Transfers[ioengine.Write] != 0 {
			t.Errorf("%s: %d writes", tc.name, c.Transfers[ioengine.Write])
		}
	}
	// The size named is enough.
	mustInit(t, simdev.New(simdev.Options{Size: 5 * mib}), InitOptions{})
	mustInit(t, simdev.New(simdev.Options{Size: 3 * mib}), InitOptions{SlotSize: 4 * kib})
}

// poke writes a label copy behind the slab's back.
func poke(dev *simdev.Device, off int64, l Label) { dev.Poke(off, EncodeLabel(&l)) }

func mustLoad(t *testing.T, dev ioengine.Device) Label {
	t.Helper()
	l, _, _, err := loadLabel(dev)
	if err != nil {
		t.Fatalf("load label: %v", err)
	}
	return l
}

func TestEveryCopyIsEnough(t *testing.T) {
	for keep := range 3 {
		dev := simdev.New(simdev.Options{Size: 8 * mib})
		want := mustInit(t, dev, InitOptions{Name: "x"})
		for i, off := range labelOffsets(8 * mib) {
			if i != keep {
				dev.FlipBit(off + 100)
			}
		}
		if got := mustLoad(t, dev); got != want {
			t.Errorf("copy %d alone: got %+v, want %+v", keep, got, want)
		}
		r := open(t, dev, Options{})
		if err := r.SetMount(1, Holder{Host: "h", PID: 1}); err != nil {
			t.Fatalf("mount: %v", err)
		}
		copies, err := readLabels(dev)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range copies {
			if c.Err != nil || c.Label != r.Label() {
				t.Errorf("mount did not repair the copy at %d: %v", c.Off, c.Err)
			}
		}
	}
}

func TestUnreadableCopyIsPassedOver(t *testing.T) {
	dev := simdev.New(simdev.Options{Size: 8 * mib})
	want := mustInit(t, dev, InitOptions{})
	dev.FailRange(ioengine.Read, 0, 4096, syscall.EIO)
	if got := mustLoad(t, dev); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestHighestEpochWins(t *testing.T) {
	dev := simdev.New(simdev.Options{Size: 8 * mib})
	l := mustInit(t, dev, InitOptions{})
	newer := l
	newer.Epoch, newer.Mount = l.Epoch+1, 9
	poke(dev, 7*mib, newer)
	if got := mustLoad(t, dev); got.Mount != 9 {
		t.Errorf("got mount %d, want 9", got.Mount)
	}
	newer.Epoch, newer.Incompat = l.Epoch+2, 1<<5
	poke(dev, 512*kib, newer)
	if _, _, _, err := loadLabel(dev); !errors.Is(err, ErrIncompat) || !strings.Contains(err.Error(), "bit 5") {
		t.Errorf("got %v, want ErrIncompat naming bit 5: an older copy must not be used instead", err)
	}
}

// TestOldCopyNeverRevives is C15: the first MiB of an old slab is zeroed, init runs
// anew, the new first label is damaged.
func TestOldCopyNeverRevives(t *testing.T) {
	for _, wipe := range []bool{false, true} {
		dev := simdev.New(simdev.Options{Size: 8 * mib})
		old := mustInit(t, dev, InitOptions{Name: "old"})
		r := open(t, dev, Options{})
		for n := range uint64(50) { // its epoch runs ahead
			if err := r.SetMount(n+1, Holder{}); err != nil {
				t.Fatalf("mount: %v", err)
			}
		}
		dev.Poke(0, make([]byte, mib))
		l := mustInit(t, dev, InitOptions{Name: "new", Wipe: wipe})
		if l.Epoch <= r.Label().Epoch {
			t.Errorf("epoch %d is not above the old %d", l.Epoch, r.Label().Epoch)
		}
		for _, off := range labelOffsets(8 * mib) {
			dev.FlipBit(off + 17)
			got, _, _, err := loadLabel(dev)
			if err == nil && got.Incarnation == old.Incarnation {
				t.Fatalf("after damage at %d the old label came back", off)
			}
			if err != nil && !errors.Is(err, ErrNoLabel) {
				t.Errorf("after damage at %d: %v", off, err)
			}
		}
	}
}

// TestInitOrder looks at what reaches the device: all three places and both zones
// are cleared and flushed before the first label, and a flush follows each label.
func TestInitOrder(t *testing.T) {
	const size = 8*mib + 64*kib
	var log []string
	sim := simdev.New(simdev.Options{Size: size, Block: 512})
	poke(sim, 0, sampleLabel())
	sim.Poke(size-512, []byte("GPT backup"))
	dev := &hooked{Device: sim}
	dev.onWrite = func(vec [][]byte, off int64) (int, error, bool) {
		kind := "data"
		switch _, err := DecodeLabel(vec[0]); {
		case err == nil:
			kind = "label"
		case isZero(vec[0]):
			kind = "zero"
		}
		log = append(log, fmt.Sprintf("%s %d+%d", kind, off, len(vec[0])))
		return 0, nil, false
	}
	dev.onFlush = func() error { log = append(log, "flush"); return nil }
	mustInit(t, dev, InitOptions{})
	want := []string{
		"zero 0+1048576", "flush", "zero 7340032+1048576", "zero 8388608+65536", "flush",
		"label 7340032+4096", "flush", "label 524288+4096", "flush", "label 0+4096", "flush",
	}
	if got := strings.Join(log, ", "); got != strings.Join(want, ", ") {
		t.Errorf("got  %s\nwant %s", got, strings.Join(want, ", "))
	}
}

// TestMountSurvivesAnyCrash cuts the power at each write of a mount: there is always
// a whole label, old or new, of this incarnation.
func TestMountSurvivesAnyCrash(t *testing.T) {
	for stop := range 4 {
		for pick := range 3 {
			sim := simdev.New(simdev.Options{Size: 8 * mib, Block: 512, Volatile: true})
			old := mustInit(t, sim, InitOptions{})
			writes := 0
			dev := &hooked{Device: sim}
			dev.onWrite = func([][]byte, int64) (int, error, bool) {
				writes++
				return 0, nil, false
			}
			dev.onFlush = func() error {
				if writes == stop {
					return syscall.EIO // the cut comes here, before the flush took effect
				}
				return nil
			}
			r := open(t, dev, Options{})
			if err := r.SetMount(5, Holder{Host: "h"}); (err != nil) != (stop > 0) {
				t.Fatalf("mount cut at write %d: %v", stop, err)
			}
			n := 0
			crashed := sim.Crash(func(_ int64, versions int) int {
				n++
				switch pick {
				case 0:
					return 0
				case 1:
					return versions - 1
				}
				return n % versions // torn
			})
			got := mustLoad(t, crashed)
			if got.Incarnation != old.Incarnation || got.Mount != 0 && got.Mount != 5 {
				t.Errorf("cut at write %d, pick %d: got %+v", stop, pick, got)
			}
		}
	}
}

func TestFailedMountNeverReusesItsEpoch(t *testing.T) {
	dev := simdev.New(simdev.Options{Size: 8 * mib})
	l := mustInit(t, dev, InitOptions{})
	r := open(t, dev, Options{})
	dev.FailRange(ioengine.Write, 512*kib, 4096, syscall.EIO)
	if err := r.SetMount(1, Holder{PID: 1}); !errors.Is(err, syscall.EIO) {
		t.Fatalf("got %v, want EIO", err)
	}
	if r.Label() != l {
		t.Errorf("a failed mount changed the label to %+v", r.Label())
	}
	dev.Heal()
	if err := r.SetMount(1, Holder{PID: 2}); err != nil {
		t.Fatal(err)
	}
	if got := mustLoad(t, dev); got.Epoch != l.Epoch+2 || got.Holder.PID != 2 || got != r.Label() {
		t.Errorf("got %+v", got)
	}
}

func TestMountKeepsWhatItDoesNotKnow(t *testing.T) {
	dev := simdev.New(simdev.Options{Size: 8 * mib})
	l := mustInit(t, dev, InitOptions{})
	l.Compat = 1 << 4
	b := EncodeLabel(&l)
	copy(b[2000:], "a newer release keeps something here")
	seal(b)
	for _, off := range labelOffsets(8 * mib) {
		dev.Poke(off, b)
	}
	r := open(t, dev, Options{})
	if _, ro := r.ReadOnly(); ro {
		t.Error("a compat bit made the slab read-only")
	}
	if err := r.SetMount(1, Holder{}); err != nil {
		t.Fatal(err)
	}
	if got := mustLoad(t, dev); got.Compat != l.Compat || got.Mount != 1 {
		t.Errorf("got %+v", got)
	}
	if got := string(dev.Peek(2000, 14)); got != "a newer releas" {
		t.Errorf("got %q", got)
	}
}

func TestUnknownROCompatIsReadOnly(t *testing.T) {
	dev := simdev.New(simdev.Options{Size: 8 * mib})
	l := mustInit(t, dev, InitOptions{})
	l.ROCompat = 1 << 7
	for _, off := range labelOffsets(8 * mib) {
		poke(dev, off, l)
	}
	before := dev.Counts().Transfers[ioengine.Write]
	r := open(t, dev, Options{})
	r.Ready()
	if reason, ro := r.ReadOnly(); !ro || !strings.Contains(reason, "bit 7") {
		t.Errorf("got %q, %v, want read-only naming bit 7", reason, ro)
	}
	if _, ok := r.Reserve(1); ok {
		t.Error("reserve on a read-only slab")
	}
	if err := r.SetMount(1, Holder{}); !errors.Is(err, ErrReadOnly) {
		t.Errorf("mount: got %v, want ErrReadOnly", err)
	}
	if got := dev.Counts().Transfers[ioengine.Write]; got != before {
		t.Errorf("%d writes", got-before)
	}
}

func TestOpenRefuses(t *testing.T) {
	size := int64(16 * mib)
	for _, tc := range []struct {
		name string
		hurt func(dev *simdev.Device, l Label) ioengine.Device
		o    Options
		want error
		text []string
	}{
		{"no label", func(*simdev.Device, Label) ioengine.Device {
			return simdev.New(simdev.Options{Size: size})
		}, Options{Name: "fast0"}, ErrNoLabel, []string{"rawblockd init simdev"}},
		{"all damaged", func(dev *simdev.Device, _ Label) ioengine.Device {
			for _, off := range labelOffsets(size) {
				dev.FlipBit(off + 50)
			}
			return dev
		}, Options{}, ErrLabel, []string{"checksum"}},
		{"truncated", func(dev *simdev.Device, l Label) ioengine.Device {
			small := simdev.New(simdev.Options{Size: 12 * mib})
			poke(small, 0, l)
			return small
		}, Options{}, ErrGeometry, []string{"truncated"}},
		{"slot_size (C11)", nil, Options{SlotSize: 4 * mib}, ErrGeometry, []string{"4 MiB", "2 MiB", "slot_size: 2MiB", "--slot-size 4MiB --wipe"}},
		{"io size", nil, Options{IOSize: 3 * mib / 2}, nil, []string{"1 MiB"}},
		{"bounce bytes", nil, Options{BounceBytes: mib}, nil, []string{"8 MiB"}},
		{"stride", func(dev *simdev.Device, l Label) ioengine.Device {
			l.Stride, l.Epoch = l.Stride+4096, l.Epoch+1
			poke(dev, 0, l)
			return dev
		}, Options{}, ErrGeometry, []string{"stride"}},
		{"piece size", func(dev *simdev.Device, l Label) ioengine.Device {
			l.PieceSize, l.Epoch = 2*mib, l.Epoch+1
			poke(dev, 0, l)
			return dev
		}, Options{}, ErrGeometry, []string{"2097152"}},
	} {
		sim := simdev.New(simdev.Options{Size: size})
		l := mustInit(t, sim, InitOptions{})
		var dev ioengine.Device = sim
		if tc.hurt != nil {
			dev = tc.hurt(sim, l)
		}
		before := sim.Counts().Transfers[ioengine.Write]
		eng := ioengine.NewPread(dev, ioengine.PreadOptions{Workers: 1})
		_, err := Open(dev, eng, tc.o)
		if err == nil || tc.want != nil && !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.name, err, tc.want)
		}
		for _, text := range tc.text {
			if err != nil && !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %q does not say %q", tc.name, err, text)
			}
		}
		if got := sim.Counts().Transfers[ioengine.Write]; got != before {
			t.Errorf("%s: %d writes", tc.name, got-before)
		}
		_ = eng.Close()
	}
}

// TestGrownDevice: the label is found at the front, the slots stay as they are, and
// the mount puts the last copy at the new end.
func TestGrownDevice(t *testing.T) {
	small := simdev.New(simdev.Options{Size: 8 * mib})
	l := mustInit(t, small, InitOptions{})
	big := simdev.New(simdev.Options{Size: 16 * mib})
	big.Poke(0, small.Peek(0, 8*mib))
	r := open(t, big, Options{})
	if r.Label() != l {
		t.Errorf("got %+v, want %+v", r.Label(), l)
	}
	if err := r.SetMount(1, Holder{}); err != nil {
		t.Fatal(err)
	}
	if got, err := DecodeLabel(big.Peek(15*mib, block)); err != nil || got != r.Label() {
		t.Errorf("last copy: %v", err)
	}
}

// TestShrunkDeviceKeepsTheNewerInit: init on a grown device cannot see the last copy
// of the older, smaller slab; when the device shrinks back that copy must lose.
func TestShrunkDeviceKeepsTheNewerInit(t *testing.T) {
	small := simdev.New(simdev.Options{Size: 8 * mib})
	old := mustInit(t, small, InitOptions{SlotSize: mib})
	old.Epoch = uint64(time.Now().Add(-time.Hour).UnixMilli()) + 5 // made an hour ago, mounted five times
	poke(small, 7*mib, old)
	big := simdev.New(simdev.Options{Size: 16 * mib})
	big.Poke(mib, small.Peek(mib, 7*mib)) // its front copies were zeroed
	mustInit(t, big, InitOptions{SlotSize: mib})
	small.Poke(0, big.Peek(0, 8*mib))
	if got, _, _, err := loadLabel(small); err == nil || got.Incarnation == old.Incarnation {
		t.Errorf("got %+v, %v, want a refusal of the new label", got, err)
	}
}
