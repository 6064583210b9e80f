// SPDX-License-Identifier: Apache-2.0

package slab

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func sampleLabel() Label {
	return Label{
		Incarnation: [16]byte{0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0x4d, 0xef, 0x80, 1, 2, 3, 4, 5, 6, 7},
		Name:        "fast0", SlotSize: 2 * mib, Stride: 2*mib + 4*kib, HeaderZone: 4 * kib, SlotCount: 1000,
		DataOffset: mib, PieceSize: mib, DeviceSize: 4 << 30, Mount: 7,
		Holder:  Holder{Host: "node-1", BootID: "6f1c9f9e-0f7e-4a50-9f3b-0a5e5d4c3b2a", PID: 4242},
		Created: time.UnixMilli(1700000000123), Epoch: 1700000000130, Compat: 1, ROCompat: 2, Incompat: 0,
	}
}

// goldenLabel is format version 1, frozen: all bytes that are not zero.
var goldenLabel = map[int]string{
	0:    "52424c4b444c424c" + "01000000" + "01000000" + "02000000" + "00000000",
	24:   "0123456789ab4def8001020304050607",
	40:   "8268e5cf8b010000" + "0700000000000000" + "7b68e5cf8b010000",
	64:   "0000000001000000" + "0000200000000000" + "0010200000000000" + "0010000000000000" + "0000100000000000" + "0000100000000000",
	112:  "e8030000" + "92100000" + "0500" + "0600" + "2400" + "0000",
	128:  hex.EncodeToString([]byte("fast0")),
	192:  hex.EncodeToString([]byte("node-1")),
	448:  hex.EncodeToString([]byte("6f1c9f9e-0f7e-4a50-9f3b-0a5e5d4c3b2a")),
	4092: "42c388e0",
}

// golden lays hex strings out in a block of zeros.
func golden(t *testing.T, at map[int]string) []byte {
	t.Helper()
	b := make([]byte, block)
	for off, s := range at {
		raw, err := hex.DecodeString(s)
		if err != nil {
			t.Fatalf("golden bytes at %d: %v", off, err)
		}
		copy(b[off:], raw)
	}
	return b
}

func TestLabelGolden(t *testing.T) {
	l := sampleLabel()
	l.DeviceSize = 1 << 32
	want := golden(t, goldenLabel)
	if diff := cmp.Diff(hex.Dump(want), hex.Dump(EncodeLabel(&l))); diff != "" {
		t.Errorf("the label format changed (-want +got):\n%s", diff)
	}
	got, err := DecodeLabel(want)
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	if diff := cmp.Diff(l, got); diff != "" {
		t.Errorf("decoded label (-want +got):\n%s", diff)
	}
}

func TestLabelRefusesDamage(t *testing.T) {
	l := sampleLabel()
	good := EncodeLabel(&l)
	for off := range good {
		b := bytes.Clone(good)
		b[off] ^= 0x10
		if _, err := DecodeLabel(b); err == nil {
			t.Fatalf("a flipped bit at %d was accepted", off)
		}
	}
	for n := range len(good) {
		if _, err := DecodeLabel(good[:n]); !errors.Is(err, ErrNoLabel) {
			t.Fatalf("%d bytes: got %v, want ErrNoLabel", n, err)
		}
	}
	if _, err := DecodeLabel(make([]byte, block)); !errors.Is(err, ErrNoLabel) {
		t.Errorf("zeros: got %v, want ErrNoLabel", err)
	}
}

func TestLabelOfANewerRelease(t *testing.T) {
	l := sampleLabel()
	l.Incompat = 1<<3 | 1<<31
	got, err := DecodeLabel(EncodeLabel(&l))
	if !errors.Is(err, ErrIncompat) || !strings.Contains(err.Error(), "bits 3, 31") {
		t.Errorf("got %v, want ErrIncompat naming bits 3 and 31", err)
	}
	if got.Epoch != l.Epoch || got.Incarnation != l.Incarnation {
		t.Errorf("epoch and incarnation are needed even so, got %+v", got)
	}
	l = sampleLabel()
	b := EncodeLabel(&l)
	b[8] = 2
	seal(b)
	if _, err := DecodeLabel(b); !errors.Is(err, ErrIncompat) || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("got %v, want ErrIncompat naming version 2", err)
	}
}

func TestLabelCutsLongNames(t *testing.T) {
	l := sampleLabel()
	l.Holder.Host = strings.Repeat("h", 254) + "é" // the cut must not split the é
	got, err := DecodeLabel(EncodeLabel(&l))
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	if want := strings.Repeat("h", 254); got.Holder.Host != want {
		t.Errorf("got host of %d bytes, want %d", len(got.Holder.Host), len(want))
	}
}

// patched is a block with some bytes changed; small inputs keep the fuzzer quick.
// Resealed, it gets past the checksum.
func patched(sample []byte, off uint16, patch []byte, reseal bool) []byte {
	b := bytes.Clone(sample)
	copy(b[int(off)%len(b):], patch)
	if reseal {
		seal(b)
	}
	return b
}

func FuzzLabel(f *testing.F) {
	l := sampleLabel()
	sample := EncodeLabel(&l)
	f.Add(uint16(0), []byte{}, true)
	f.Add(uint16(8), make([]byte, 64), true)
	f.Fuzz(func(t *testing.T, off uint16, patch []byte, reseal bool) {
		b := patched(sample, off, patch, reseal)
		l, err := DecodeLabel(b)
		if err != nil {
			return
		}
		again := bytes.Clone(b[:block])
		patchLabel(again, &l)
		if !bytes.Equal(again, b[:block]) {
			t.Fatalf("accepted label re-encodes differently:\n%s", cmp.Diff(hex.Dump(b[:block]), hex.Dump(again)))
		}
		if l2, err := DecodeLabel(EncodeLabel(&l)); err != nil || l2 != l {
			t.Fatalf("got %+v, %v, want %+v", l2, err, l)
		}
	})
}
