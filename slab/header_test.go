// SPDX-License-Identifier: Apache-2.0

package slab

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func sampleHeader() Header {
	return Header{
		Incarnation: sampleLabel().Incarnation, Slot: 77, Gen: 1 << 40, Part: 2, Parts: 40,
		Namespace: "lmcache", Key: "model@1@abc", Len: 80 * mib, Sum: 0x1122334455667788,
		StoredAt: 1700000000123, ExpiresAt: 1700000060123,
	}
}

// goldenHeader is format version 1, frozen.
var goldenHeader = map[int]string{
	0:    "52424c4b44534c54" + "01000000" + "00000000" + "00000000" + "00000000",
	24:   "0123456789ab4def8001020304050607",
	40:   "4d000000" + "02000000" + "28000000" + "00000000",
	56:   "0000000000010000" + "0000000500000000" + "8877665544332211",
	80:   "7b68e5cf8b010000" + "db52e6cf8b010000",
	96:   "0700" + "0b00",
	128:  hex.EncodeToString([]byte("lmcachemodel@1@abc")),
	4092: "041dfee0",
}

func TestHeaderGolden(t *testing.T) {
	h := sampleHeader()
	want := golden(t, goldenHeader)
	got := make([]byte, HeaderSize)
	got[4000] = 0xff // whatever lay in the buffer before
	if err := EncodeHeader(got, &h); err != nil {
		t.Fatalf("encode: %v", err)
	}
	if diff := cmp.Diff(hex.Dump(want), hex.Dump(got)); diff != "" {
		t.Errorf("the header format changed (-want +got):\n%s", diff)
	}
	back, err := DecodeHeader(want)
	if err != nil || back != h {
		t.Errorf("decode: got %+v, %v, want %+v", back, err, h)
	}
}

func TestHeaderRefusesDamage(t *testing.T) {
	h := sampleHeader()
	good := make([]byte, HeaderSize)
	if err := EncodeHeader(good, &h); err != nil {
		t.Fatalf("encode: %v", err)
	}
	for off := range good {
		b := bytes.Clone(good)
		b[off] ^= 0x04
		if _, err := DecodeHeader(b); err == nil {
			t.Fatalf("a flipped bit at %d was accepted", off)
		}
	}
	if _, err := DecodeHeader(make([]byte, HeaderSize)); !errors.Is(err, ErrNoHeader) {
		t.Errorf("zeros: got %v, want ErrNoHeader", err)
	}
	for _, tc := range []struct {
		name string
		hurt func(b []byte)
		want error
	}{
		{"text too long", func(b []byte) { b[98], b[99] = 0xff, 0xff }, ErrHeader},
		{"bytes between the fields", func(b []byte) { b[101] = 1 }, ErrHeader},
		{"bytes behind the key", func(b []byte) { b[4000] = 1 }, ErrHeader},
		{"part beyond parts", func(b []byte) { b[44] = 40 }, ErrHeader},
		{"incompat bit", func(b []byte) { b[20] = 1 }, ErrIncompat},
		{"version", func(b []byte) { b[8] = 9 }, ErrIncompat},
		{"compat bit explains bytes behind the key", func(b []byte) { b[12], b[4000] = 1, 1 }, nil},
	} {
		b := bytes.Clone(good)
		tc.hurt(b)
		seal(b)
		if _, err := DecodeHeader(b); !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.name, err, tc.want)
		}
	}
}

func TestHeaderHoldsTheLongestNames(t *testing.T) {
	h := sampleHeader()
	h.Namespace, h.Key = strings.Repeat("n", 1024), strings.Repeat("k", 1024)
	b := make([]byte, HeaderSize)
	if err := EncodeHeader(b, &h); err != nil {
		t.Fatalf("encode: %v", err)
	}
	if got, err := DecodeHeader(b); err != nil || got != h {
		t.Errorf("got %v, names differ: %v", err, got != h)
	}
	h.Key = strings.Repeat("k", maxHeaderText)
	if err := EncodeHeader(b, &h); !errors.Is(err, ErrShape) {
		t.Errorf("too long: got %v, want ErrShape", err)
	}
	if err := EncodeHeader(b[:10], &h); !errors.Is(err, ErrShape) {
		t.Errorf("short buffer: got %v, want ErrShape", err)
	}
}

func TestSumsAreFormatConstants(t *testing.T) {
	parts := [][]byte{bytes.Repeat([]byte{7}, mib), bytes.Repeat([]byte{9}, 100)}
	for _, tc := range []struct {
		name      string
		got, want uint64
	}{
		{"key seed", KeySeed("ns", "key"), 0x645d50949afef454},
		{"one piece", Sum(parts[:1], 1000, 42), 0x1a93f803caee1ee5},
		{"two pieces", Sum(parts, mib+100, 42), 0xc65a3eea54bfb2af},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: got %#016x, want %#016x", tc.name, tc.got, tc.want)
		}
	}
	if KeySeed("ab", "c") == KeySeed("a", "bc") {
		t.Error("namespace and key run into each other")
	}
	if Sum(parts, mib+100, 42) == Sum(parts, mib+99, 42) {
		t.Error("the length does not count")
	}
}

func FuzzHeader(f *testing.F) {
	h := sampleHeader()
	sample := make([]byte, HeaderSize)
	if err := EncodeHeader(sample, &h); err != nil {
		f.Fatal(err)
	}
	f.Add(uint16(0), []byte{}, true)
	f.Add(uint16(8), make([]byte, 64), true)
	f.Fuzz(func(t *testing.T, off uint16, patch []byte, reseal bool) {
		b := patched(sample, off, patch, reseal)
		h, err := DecodeHeader(b)
		if err != nil || h.Compat|h.ROCompat != 0 {
			return
		}
		again := make([]byte, HeaderSize)
		if err := EncodeHeader(again, &h); err != nil {
			t.Fatalf("accepted header does not encode: %v", err)
		}
		if !bytes.Equal(again, b[:HeaderSize]) {
			t.Fatalf("accepted header re-encodes differently:\n%s", cmp.Diff(hex.Dump(b[:HeaderSize]), hex.Dump(again)))
		}
	})
}
