// SPDX-License-Identifier: Apache-2.0

package slab

import (
	"testing"

	"github.com/rawblockd/rawblockd/internal/testdev"
	"github.com/rawblockd/rawblockd/ioengine"
)

// TestRealDevices stores and loads payloads of several models on real devices, with
// direct I/O, through every kind of memory, and again after a reopen.
func TestRealDevices(t *testing.T) {
	for name, make := range map[string]func(t *testing.T) string{
		"file":      func(t *testing.T) string { return testdev.File(t, 256*mib) },
		"loop 512":  func(t *testing.T) string { return testdev.Loop(t, 256*mib, 512) },
		"loop 4096": func(t *testing.T) string { return testdev.Loop(t, 256*mib, 4096) },
		"tmpfs":     func(t *testing.T) string { return testdev.FileIn(t, testdev.Tmpfs(t), 256*mib) },
	} {
		t.Run(name, func(t *testing.T) {
			path := make(t)
			if _, err := Init(path, InitOptions{}); err != nil {
				t.Fatal(err)
			}
			stored := session(t, path, nil)
			session(t, path, stored)
		})
	}
}

// session opens the device, reads what an earlier session stored, and stores if
// there was none.
func session(t *testing.T, path string, stored []Payload) []Payload {
	t.Helper()
	dev, err := OpenDevice(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	}()
	eng := ioengine.NewPread(dev, ioengine.PreadOptions{Workers: 8})
	s, err := Open(dev, eng, Options{Name: "fast0", SlotSize: 2 * mib})
	if err != nil {
		t.Fatal(err)
	}
	r := rig{Slab: s, dev: dev, eng: eng}
	for _, p := range stored {
		if err := r.Restore(p.Slots); err != nil {
			t.Error(err)
		}
		r.mustHold(t, p)
	}
	r.Ready()
	if stored == nil {
		stored = storeReal(t, r)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := eng.Close(); err != nil {
		t.Error(err)
	}
	return stored
}

func storeReal(t *testing.T, r rig) []Payload {
	t.Helper()
	if err := r.SetMount(1, Holder{Host: "test", PID: 1}); err != nil {
		t.Fatal(err)
	}
	var stored []Payload
	for i, length := range []int64{1, 512 * kib, mla, 3*mib + 1, 24*mib - 1, 32 * mib, 80 * mib} {
		src, _ := shapes[i%len(shapes)].make(t, length, 512)
		q := r.request(t, length, uint64(i+1), src)
		res := r.write(t, q)[0]
		if res.err != nil {
			t.Fatalf("write %d bytes: %v", length, res.err)
		}
		p := Payload{Slots: q.Slots, Len: length, Gen: q.Gen, Sum: res.sum, Seed: q.Seed}
		for _, shape := range shapes {
			dst, guard := shape.make(t, length, 512)
			if err := r.read(ReadReq{p, dst})[0]; err != nil {
				t.Fatalf("read %d bytes into %s: %v", length, shape.name, err)
			}
			if !untouched(guard) {
				t.Errorf("%d bytes into %s: something was written past the end", length, shape.name)
			}
		}
		if h, err := r.ReadHeader(p.Slots[0]); err != nil || h.Sum != p.Sum || h.Len != length {
			t.Errorf("header: %+v, %v", h, err)
		}
		stored = append(stored, p)
	}
	if err := r.Flush(); err != nil {
		t.Fatal(err)
	}
	return stored
}
