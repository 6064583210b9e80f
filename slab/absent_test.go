// SPDX-License-Identifier: Apache-2.0

package slab

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rawblockd/rawblockd/internal/simdev"
	"github.com/rawblockd/rawblockd/ioengine"
)

// A slab without its device keeps accounts of its slots, gives none away, and
// answers whatever needs the device with why there is none.
func TestAbsent(t *testing.T) {
	why := fmt.Errorf("open device: %w", syscall.ENXIO)
	s := Absent(AbsentOptions{Name: "fast0", Device: "/dev/gone", Incarnation: [16]byte{7}, SlotSize: 64 * kib, Slots: 10, Why: why})
	if s.Name() != "fast0" || s.Device() != "/dev/gone" || s.SlotSize() != 64*kib || s.SlotCount() != 10 || s.Label().Incarnation != [16]byte{7} {
		t.Errorf("got %q on %q, %d slots of %d, %+v", s.Name(), s.Device(), s.SlotCount(), s.SlotSize(), s.Label())
	}
	if err := s.Restore([]uint32{3, 4}); err != nil {
		t.Fatal(err)
	}
	s.Quarantine([]uint32{9})
	s.Ready()
	s.Move([]uint32{3}, Used, Deleting)
	if got, want := s.Counts(), (Counts{Free: 7, Used: 1, Deleting: 1, Quarantined: 1, Total: 10}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := s.SlotsFor(64*kib + 1); got != 2 {
		t.Errorf("slots for a byte more than one: %d", got)
	}
	if slots, ok := s.Reserve(1); ok {
		t.Errorf("it gave slots %v away", slots)
	}
	mem := [][]byte{make([]byte, 4*kib)}
	answers := 0
	answer := func(what string, err error) {
		t.Helper()
		answers++
		if !errors.Is(err, ErrAbsent) || !errors.Is(err, syscall.ENXIO) {
			t.Errorf("%s: got %v, want ErrAbsent and why", what, err)
		}
	}
	s.Read([]ReadReq{{Payload: Payload{Slots: []uint32{4}, Len: 1}, Dst: mem}}, func(_ int, err error) { answer("read", err) })
	answer("flush", s.Flush())
	answer("mount", s.SetMount(1, Holder{}))
	answer("label", s.CheckLabel())
	_, err := s.ReadHeader(4)
	answer("header", err)
	if answers != 5 {
		t.Errorf("%d answers, want 5", answers)
	}
	if got := s.EngineStats(); got != (ioengine.Stats{}) || s.Geometry() != (ioengine.Geometry{}) {
		t.Errorf("engine %+v, geometry %+v", got, s.Geometry())
	}
	if s.Absent() == nil {
		t.Error("it does not say that it is absent")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}

	// Of what metadata does not know there is nothing to count.
	s = Absent(AbsentOptions{Name: "new", Device: "/dev/gone", SlotSize: 5, Slots: 10, Why: why})
	s.Ready()
	if s.SlotCount() != 0 || s.SlotsFor(1) != 1 {
		t.Errorf("%d slots, %d for a byte", s.SlotCount(), s.SlotsFor(1))
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// What says that a device is away, and what says that it is the wrong one.
func TestGone(t *testing.T) {
	size := int64(16 * mib)
	made := func(hurt func(*simdev.Device)) error {
		dev := simdev.New(simdev.Options{Size: size})
		mustInit(t, dev, InitOptions{})
		hurt(dev)
		eng := ioengine.NewPread(dev, ioengine.PreadOptions{Workers: 1})
		defer eng.Close()
		_, err := Open(dev, eng, Options{SlotSize: 4 * mib})
		return err
	}
	opened := func(path string) error {
		_, err := OpenDevice(path)
		return err
	}
	held := filepath.Join(t.TempDir(), "slab")
	if _, err := Init(held, InitOptions{Size: 16 * mib}); err != nil {
		t.Fatal(err)
	}
	dev, err := OpenDevice(held)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	for name, tc := range map[string]struct {
		err  error
		gone bool
	}{
		"no such path":      {opened("/no/such/device"), true},
		"EIO on every copy": {made(func(d *simdev.Device) { d.FailRange(ioengine.Read, 0, size, syscall.EIO) }), true},
		"vanished":          {made(func(d *simdev.Device) { d.Vanish() }), true},
		"no medium":         {fmt.Errorf("open: %w", syscall.ENOMEDIUM), true},
		"held":              {opened(held), false},
		"a directory":       {opened(filepath.Dir(held)), false},
		"not permitted":     {fs.ErrPermission, false},
		"another slot size": {made(func(*simdev.Device) {}), false},
		"zeros":             {made(func(d *simdev.Device) { d.Poke(0, make([]byte, size)) }), false},
		"zeros, and EIO at last": {made(func(d *simdev.Device) {
			d.Poke(0, make([]byte, size))
			d.FailRange(ioengine.Read, size-mib, mib, syscall.EIO)
		}), false},
	} {
		if tc.err == nil || Gone(tc.err) != tc.gone {
			t.Errorf("%s: gone is %v, want %v: %v", name, Gone(tc.err), tc.gone, tc.err)
		}
	}
	// Nobody is told to make a slab of a device that may well be one.
	if err := made(func(d *simdev.Device) { d.Vanish() }); errors.Is(err, ErrNoLabel) || strings.Contains(err.Error(), "rawblockd init") {
		t.Errorf("of a device that could not be read: %v", err)
	}
}

// The sign of life is the slab's own label, whichever copy of it.
func TestCheckLabel(t *testing.T) {
	r, dev := sim(t, simdev.Options{Size: 16 * mib}, InitOptions{Name: "a"}, Options{})
	if err := r.CheckLabel(); err != nil {
		t.Error(err)
	}
	dev.FailRange(ioengine.Read, 0, 8*mib, syscall.EIO)
	if err := r.CheckLabel(); err != nil {
		t.Errorf("with the last copy: %v", err)
	}
	dev.FailRange(ioengine.Read, 0, 16*mib, syscall.EIO)
	if err := r.CheckLabel(); !errors.Is(err, syscall.EIO) {
		t.Errorf("without any: %v", err)
	}
	dev.Heal()
	if err := r.CheckLabel(); err != nil {
		t.Errorf("healed: %v", err)
	}
	mustInit(t, dev, InitOptions{Name: "b", Wipe: true})
	if err := r.CheckLabel(); !errors.Is(err, ErrGeometry) {
		t.Errorf("another slab was made of it: %v", err)
	}
}

func TestStatesAndOps(t *testing.T) {
	r, _ := sim(t, simdev.Options{Size: 16 * mib}, InitOptions{SlotSize: mib}, Options{})
	slots, _ := r.Reserve(3)
	r.Move(slots[1:2], Reserved, Used)
	dst := make([]State, 100)
	n := r.States(slots[0], dst)
	if n != int(r.SlotCount()-slots[0]) || dst[0] != Reserved || dst[1] != Used || dst[2] != Reserved || dst[3] != Free {
		t.Errorf("%d states: %v", n, dst[:n])
	}
	if n := r.States(r.SlotCount(), dst); n != 0 {
		t.Errorf("%d states beyond the end", n)
	}
	for length, want := range map[int64]int{1: 1, mib: 1, mib + 1: 2, 3 * mib: 3} {
		if got := r.OpsFor(length); got != want {
			t.Errorf("%d bytes are %d ops, want %d", length, got, want)
		}
	}
}
