// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecodeKeyList(t *testing.T) {
	for body, want := range map[string]Keys{
		"":              {},
		"a":             {"a"},
		"a\n":           {"a"},
		"a\nb":          {"a", "b"},
		"\n":            {""},
		"a\n\nb\n":      {"a", "", "b"},
		"a\n\n":         {"a", ""},
		"\n\n":          {"", ""},
		"a\r\nb\r\n":    {"a\r", "b\r"},
		"a b\n\x00\nc":  {"a b", "\x00", "c"},
		"a\n\xff\nb":    {"a", "", "b"},
		"a\xed\xa0\x80": {""},
		"\ufeffa\né":    {"\ufeffa", "é"},
		".\n..\n/\n":    {".", "..", "/"},
	} {
		got, err := DecodeKeyList([]byte(body), 10)
		if err != nil {
			t.Errorf("%q: %v", body, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%q: %s", body, d)
		}
	}
	for body, ok := range map[string]bool{
		"a\nb\nc": true, "a\nb\nc\n": true, "\n\n\n": true,
		"a\nb\nc\nd": false, "a\nb\nc\n\n": false, "\n\n\nd": false,
	} {
		_, err := DecodeKeyList([]byte(body), 3)
		var p *Problem
		if ok != (err == nil) || err != nil && (!errors.As(err, &p) || p.Code != CodeTooManyKeys || p.Field != "keys") {
			t.Errorf("%q: got %v", body, err)
		}
	}
}

// What a client writes comes back key by key; what is no key keeps its place.
func TestAppendKeyList(t *testing.T) {
	long := strings.Repeat("k", MaxKeyBytes)
	keys := []string{"a", "", "b/c", "new\nline", "\xff", long, long + "k", "last", ""}
	got, err := DecodeKeyList(AppendKeyList(nil, keys), len(keys))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(Keys{"a", "", "b/c", "", "", long, "", "last", ""}, got); d != "" {
		t.Error(d)
	}
}

func TestBitmap(t *testing.T) {
	for n, size := range map[int]int{0: 0, 1: 1, 8: 1, 9: 2, 16384: 2048} {
		if got := len(NewBitmap(n)); got != size {
			t.Errorf("%d keys: got %d bytes, want %d", n, got, size)
		}
	}
	b := NewBitmap(12)
	for _, i := range []int{0, 3, 8, 11} {
		b.Set(i)
	}
	if d := cmp.Diff(Bitmap{0b0000_1001, 0b0000_1001}, b); d != "" {
		t.Error(d)
	}
	for i := range 12 {
		if want := i == 0 || i == 3 || i == 8 || i == 11; b.Has(i) != want {
			t.Errorf("bit %d: got %v", i, b.Has(i))
		}
	}
}

// Any body of lines is as many keys as lines, each Unicode, and the valid ones
// are written again as they were.
func FuzzDecodeKeyList(f *testing.F) {
	f.Add([]byte("a\nb\n\n\xff\nc"))
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		keys, err := DecodeKeyList(body, 100)
		lines := strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")
		if len(body) == 0 {
			lines = nil
		}
		if err != nil {
			if len(lines) <= 100 {
				t.Fatalf("%d lines: %v", len(lines), err)
			}
			return
		}
		if len(keys) != len(lines) {
			t.Fatalf("got %d keys of %d lines", len(keys), len(lines))
		}
		for i, k := range keys {
			if CheckKey(lines[i]) == nil && k != lines[i] || CheckKey(lines[i]) != nil && CheckKey(k) == nil {
				t.Fatalf("line %d %q became key %q", i, lines[i], k)
			}
		}
		again, err := DecodeKeyList(AppendKeyList(nil, keys), 100)
		if err != nil || len(again) != len(keys) {
			t.Fatalf("written again: %d keys of %d, %v", len(again), len(keys), err)
		}
	})
}
