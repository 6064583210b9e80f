// SPDX-License-Identifier: Apache-2.0

package ioengine

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/rawblockd/rawblockd/internal/testdev"
)

func TestWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		vec := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 9), 1, 6).Draw(t, "vec")
		whole := bytes.Join(vec, nil)
		skip := rapid.IntRange(0, len(whole)).Draw(t, "skip")
		n := rapid.IntRange(0, len(whole)-skip).Draw(t, "n")
		got := bytes.Join(window(vec, int64(skip), int64(n)), nil)
		if want := whole[skip : skip+n]; !bytes.Equal(got, want) {
			t.Fatalf("%d bytes after %d: got %v, want %v", n, skip, got, want)
		}
		if !bytes.Equal(bytes.Join(vec, nil), whole) {
			t.Fatal("the caller's vector was changed")
		}
	})
}

func TestFileTransferAllocatesNothing(t *testing.T) {
	f, err := Open(testdev.File(t, 1<<20), OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mem, free, err := AlignedAlloc(8192)
	if err != nil {
		t.Fatal(err)
	}
	defer free()
	vec := [][]byte{mem[:4096], mem[4096:]}
	got := testing.AllocsPerRun(50, func() {
		if _, err := ReadFull(f, vec, 0); err != nil {
			t.Fatal(err)
		}
	})
	if got > 0 {
		t.Errorf("a read of two parts allocates %v times", got)
	}
}
