// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// goldenRow freezes the format: a change of these bytes is a new row version.
func goldenRow() (Row, string) {
	row := Row{
		Namespace: "llama", Key: "chunk/1", Gen: 0x0102030405060708, Len: 1124352, More: []uint32{9, 0xfffffffe},
		Sum: 0xa1a2a3a4a5a6a7a8, StoredAt: 1700000000000, ExpiresAt: 1700000060000,
		Family: 0x11, After: 0x22, Run: 0x33, Pos: 0x44,
	}
	return row, "01 00 0700 0500 0000 00000000 00000000 00000000 02000000" +
		"0807060504030201 0028110000000000 a8a7a6a5a4a3a2a1 0068e5cf8b010000 6052e6cf8b010000" +
		"1100000000000000 2200000000000000 3300000000000000 44000000" +
		"6c6c616d61 6368756e6b2f31 09000000 feffffff"
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// goldenCRC is the CRC32C of the golden bytes.
var goldenCRC = []byte{0x7b, 0xf2, 0x51, 0xae}

// reseal puts the right checksum under changed bytes.
func reseal(b []byte) []byte {
	body := b[:len(b)-rowCRC]
	return binary.LittleEndian.AppendUint32(append([]byte(nil), body...), castagnoli(body))
}

func TestRowGolden(t *testing.T) {
	row, text := goldenRow()
	want := append(unhex(t, text), goldenCRC...)
	if got := EncodeRow(nil, &row); !bytes.Equal(got, want) {
		t.Errorf("encoding\n%x\nwant\n%x", got, want)
	}
	got, err := DecodeRow(want)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(row, got); d != "" {
		t.Errorf("decoding (-want +got):\n%s", d)
	}
}

// A newer release's compat and ro_compat additions survive this one.
func TestRowKeepsWhatItDoesNotKnow(t *testing.T) {
	row := Row{Namespace: "n", Key: "k", Gen: 1, Compat: 1 << 5, ROCompat: 1 << 9, Ext: []byte("later")}
	b := EncodeRow([]byte("before"), &row)
	got, err := DecodeRow(b[len("before"):])
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(row, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestRowRefuses(t *testing.T) {
	row, _ := goldenRow()
	good := EncodeRow(nil, &row)
	edit := func(off int, v byte) []byte {
		b := bytes.Clone(good)
		b[off] = v
		return reseal(b)
	}
	for name, c := range map[string]struct {
		in   []byte
		want error
	}{
		"empty":               {nil, ErrRow},
		"cut":                 {good[:len(good)-1], ErrRow},
		"one byte more":       {append(bytes.Clone(good), 0), ErrRow},
		"version 2":           {edit(0, 2), ErrIncompat},
		"incompat bit":        {edit(16, 1), ErrIncompat},
		"reserved byte":       {edit(1, 1), ErrRow},
		"key longer":          {edit(2, 8), ErrRow},
		"namespace shorter":   {edit(4, 4), ErrRow},
		"extension from none": {edit(6, 1), ErrRow},
		"one slot more":       {edit(20, 3), ErrRow},
		"2³² slots":           {edit(23, 0xff), ErrRow},
	} {
		if _, err := DecodeRow(c.in); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
	for i := range good {
		flipped := bytes.Clone(good)
		flipped[i] ^= 0x10
		if _, err := DecodeRow(flipped); err == nil {
			t.Errorf("accepted a flipped bit in byte %d", i)
		}
	}
}

func TestRowRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		row := Row{
			Namespace: rapid.StringN(0, 64, -1).Draw(t, "namespace"),
			Key:       rapid.StringN(0, 1024, -1).Draw(t, "key"),
			Gen:       rapid.Uint64().Draw(t, "gen"),
			Len:       rapid.Uint64().Draw(t, "len"),
			Sum:       rapid.Uint64().Draw(t, "sum"),
			StoredAt:  rapid.Int64().Draw(t, "stored"),
			ExpiresAt: rapid.Int64().Draw(t, "expires"),
			Family:    rapid.Uint64().Draw(t, "family"),
			After:     rapid.Uint64().Draw(t, "after"),
			Run:       rapid.Uint64().Draw(t, "run"),
			Pos:       rapid.Uint32().Draw(t, "pos"),
		}
		if more := rapid.SliceOf(rapid.Uint32()).Draw(t, "more"); len(more) > 0 {
			row.More = more
		}
		got, err := DecodeRow(EncodeRow(nil, &row))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(row, got); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
	})
}

func TestEncodeRowPanicsOnLongField(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a key of 64 KiB was encoded")
		}
	}()
	EncodeRow(nil, &Row{Key: strings.Repeat("k", 1<<16)})
}

func FuzzDecodeRow(f *testing.F) {
	row, _ := goldenRow()
	f.Add(EncodeRow(nil, &row))
	f.Add(EncodeRow(nil, &Row{}))
	f.Add(EncodeRow(nil, &Row{Key: "k", Compat: 7, Ext: []byte{1}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= rowMin {
			b = reseal(b) // else the checksum would stop all but the seeds
		}
		r, err := DecodeRow(b)
		if err != nil {
			if !errors.Is(err, ErrRow) && !errors.Is(err, ErrIncompat) {
				t.Fatalf("foreign error %v", err)
			}
			return
		}
		if again := EncodeRow(nil, &r); !bytes.Equal(again, b) {
			t.Fatalf("accepted\n%x\nre-encodes to\n%x", b, again)
		}
	})
}
