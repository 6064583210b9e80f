// SPDX-License-Identifier: Apache-2.0

package slab

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/internal/simdev"
	"github.com/rawblockd/rawblockd/internal/testdev"
	"github.com/rawblockd/rawblockd/ioengine"
)

func TestCheckOptions(t *testing.T) {
	for want, o := range map[string]InitOptions{
		"slot size 3000 bytes: must be 4 KiB to 64 MiB and a multiple of 4 KiB": {SlotSize: 3000},
		"slot size 128 MiB: must be":                 {SlotSize: 128 * mib},
		"slot size -4096 bytes: must be":             {SlotSize: -4096},
		"slot size 6 KiB: must be":                   {SlotSize: 6 * kib},
		`name "a\nb": must be UTF-8 without control`: {Name: "a\nb"},
		`name "\x1b[2J": must be`:                    {Name: "\x1b[2J"},
		`name "a\u009bb": must be`:                   {Name: "a\u009bb"},
		`name "\xff": must be`:                       {Name: "\xff"},
		"is 65 bytes long, must be at most 64":       {Name: strings.Repeat("x", 65)},
		"is 66 bytes long, must be at most 64":       {Name: strings.Repeat("ü", 33)},
		"size -1 bytes: must be positive":            {Size: -1},
		"size: too small: 4 KiB, and no slab of any slot size is smaller than 3 MiB (3145728 bytes)": {Size: 4096},
		"for slots of 2 MiB is 5 MiB (5242880 bytes); slots of 1 MiB would fit: --slot-size 1MiB":    {Size: 4 * mib},
	} {
		err := o.Check()
		if !errors.Is(err, ErrOption) || errors.Is(err, ErrGeometry) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", o, err, want)
		}
		path := filepath.Join(t.TempDir(), "slab")
		o.Wipe = true
		if _, err := Init(path, o); !errors.Is(err, ErrOption) {
			t.Errorf("%+v: init says %v", o, err)
		}
		if exists(path) {
			t.Errorf("%+v: made a file", o)
		}
	}
	for _, o := range []InitOptions{
		{},
		{SlotSize: 4 * kib},
		{SlotSize: 64 * mib},
		{SlotSize: 12 * kib},
		{Name: strings.Repeat("x", 64)},
		{Name: "größer, 大"},
		{Size: 5 * mib},
		{Size: 3 * mib, SlotSize: 4 * kib},
	} {
		if err := o.Check(); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestTooSmallNamesWhatFits: no advice that fails again.
func TestTooSmallNamesWhatFits(t *testing.T) {
	for _, tc := range []struct {
		size int64
		o    InitOptions
		slot int64 // 0: nothing fits
	}{
		{4 * mib, InitOptions{}, mib},
		{testSize, InitOptions{SlotSize: 64 * mib, Name: "a b"}, 4 * mib},
		{3 * mib, InitOptions{SlotSize: mib + 4*kib}, 512 * kib},
		{3*mib - 1, InitOptions{}, 0},
		{mib, InitOptions{SlotSize: 4 * kib}, 0},
	} {
		path := testdev.File(t, tc.size)
		_, err := Init(path, tc.o)
		mustSay(t, err, ErrTooSmall)
		if tc.slot == 0 {
			mustSay(t, err, ErrTooSmall, "no slab of any slot size is smaller than 3 MiB")
			if strings.Contains(err.Error(), "run:") {
				t.Errorf("%q gives advice that cannot help", err)
			}
			continue
		}
		o := tc.o
		o.SlotSize = tc.slot
		mustSay(t, err, ErrTooSmall, "would fit, run: "+command(path, &o))
		if _, err := Init(path, o); err != nil {
			t.Errorf("the advice does not work: %v", err)
		}
	}
}

// TestOpenAdvice: what can never be a slab is not said to become one.
func TestOpenAdvice(t *testing.T) {
	for _, tc := range []struct {
		size, slot int64
		advice     string
	}{
		{mib, 0, ""},
		{3*mib - 4*kib, 4 * kib, ""},
		{4 * mib, 0, " --slot-size 1MiB"},
		{4 * mib, 8 * mib, " --slot-size 1MiB"},
		{16 * mib, 4 * mib, " --slot-size 4MiB"},
		{16 * mib, 0, ""},
	} {
		dev := simdev.New(simdev.Options{Size: tc.size})
		_, err := Open(dev, nil, Options{SlotSize: tc.slot})
		mustSay(t, err, ErrNoLabel, "open slab without a name: ")
		if holdsAny(dev.Geometry()) {
			if want := "run: rawblockd init " + quote(dev.Path()) + tc.advice; !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%q does not end with %q", err, want)
			}
		} else if mustSay(t, err, ErrTooSmall, "smaller than 3 MiB"); strings.Contains(err.Error(), "run:") {
			t.Errorf("%q gives advice that cannot help", err)
		}
	}
}

// setReadOnly sets or clears the kernel's flag, which outlives a loop device.
func setReadOnly(t *testing.T, path string, on int) {
	t.Helper()
	dev, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	if err := unix.IoctlSetPointerInt(int(dev.Fd()), unix.BLKROSET, on); err != nil {
		t.Fatal(err)
	}
}

func TestReadOnlyDevice(t *testing.T) {
	path := testdev.Loop(t, testSize, 512)
	r := served(t, path)
	dev := r.dev
	t.Cleanup(func() { setReadOnly(t, path, 0) })
	setReadOnly(t, path, 1)
	remedy := "blockdev --setrw " + path
	mustSay(t, r.SetMount(2, Holder{}), ioengine.ErrReadOnly, "write label at ", remedy)
	_, err := InitDevice(dev, InitOptions{})
	mustSay(t, err, ioengine.ErrReadOnly, "clear the first MiB", remedy)

	r.Ready()
	src, _ := shapes[0].make(t, 512*kib, 512)
	res := r.write(t, r.request(t, 512*kib, 1, src))[0]
	mustSay(t, res.err, unix.EPERM, "the device is read-only", remedy)

	if err := dev.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = OpenDevice(path)
	mustSay(t, err, ioengine.ErrReadOnly, "is read-only", remedy)
	_, err = Init(path, InitOptions{Wipe: true})
	mustSay(t, err, ioengine.ErrReadOnly, "is read-only", remedy)
	setReadOnly(t, path, 0)
	wipes(t, path, InitOptions{})
}

func TestTitle(t *testing.T) {
	for name, want := range map[string]string{"": "slab without a name", "fast0": `slab "fast0"`, "a\nb": `slab "a\nb"`} {
		if got := (Label{Name: name}).Title(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
