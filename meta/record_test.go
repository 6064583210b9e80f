// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// goldenNamespace and goldenSlab freeze the formats: a change of these bytes is a
// new record version.
func goldenNamespace() (r NamespaceRecord, crc []byte, text string) {
	r = NamespaceRecord{
		Slabs: []string{"fast0", "s"}, Quota: 0x0102030405060708, TTL: time.Second, Fingerprint: "llama-70b/fp8",
		Seed: 0x1112131415161718,
	}
	text = "01 00 0000 00000000 00000000 00000000" +
		"0807060504030201 00ca9a3b00000000 1817161514131211 0d00 0200" +
		"6c6c616d612d3730622f667038 0500 6661737430 0100 73"
	return r, []byte{0xc8, 0x95, 0xa7, 0x06}, text
}

func goldenSlab() (r SlabRecord, crc []byte, text string) {
	r = SlabRecord{Name: "fast0", Device: "/dev/x", SlotSize: 2 << 20, Slots: 0x01020304}
	text = "01 00 0000 00000000 00000000 00000000" +
		"0000200000000000 04030201 0500 0600 6661737430 2f6465762f78"
	return r, []byte{0xcb, 0x5d, 0xc4, 0xb2}, text
}

func TestRecordGolden(t *testing.T) {
	n, crc, text := goldenNamespace()
	want := append(unhex(t, text), crc...)
	if got := EncodeNamespace(nil, &n); !bytes.Equal(got, want) {
		t.Errorf("namespace\n%x\nwant\n%x", got, want)
	}
	gotN, err := DecodeNamespace(want)
	if d := cmp.Diff(n, gotN); d != "" || err != nil {
		t.Errorf("namespace: %v (-want +got):\n%s", err, d)
	}
	s, crc, text := goldenSlab()
	want = append(unhex(t, text), crc...)
	if got := EncodeSlab(nil, &s); !bytes.Equal(got, want) {
		t.Errorf("slab\n%x\nwant\n%x", got, want)
	}
	gotS, err := DecodeSlab(want)
	if d := cmp.Diff(s, gotS); d != "" || err != nil {
		t.Errorf("slab: %v (-want +got):\n%s", err, d)
	}
}

// A newer release's compat and ro_compat additions survive this one.
func TestRecordsKeepWhatTheyDoNotKnow(t *testing.T) {
	f := Features{Compat: 1 << 5, ROCompat: 1 << 9, Ext: []byte("later")}
	n := NamespaceRecord{Quota: 1, Features: f}
	gotN, err := DecodeNamespace(EncodeNamespace([]byte("before"), &n)[len("before"):])
	if d := cmp.Diff(n, gotN); d != "" || err != nil {
		t.Errorf("namespace: %v (-want +got):\n%s", err, d)
	}
	s := SlabRecord{Name: "s", Features: f}
	gotS, err := DecodeSlab(EncodeSlab([]byte("before"), &s)[len("before"):])
	if d := cmp.Diff(s, gotS); d != "" || err != nil {
		t.Errorf("slab: %v (-want +got):\n%s", err, d)
	}
}

func TestRecordsRefuse(t *testing.T) {
	n, _, _ := goldenNamespace()
	s, _, _ := goldenSlab()
	for what, c := range map[string]struct {
		good   []byte
		decode func([]byte) error
		edits  map[string]edit
	}{
		"namespace": {EncodeNamespace(nil, &n), func(b []byte) error { _, err := DecodeNamespace(b); return err }, map[string]edit{
			"fingerprint longer":  {40, 0xff, ErrRow},
			"fingerprint shorter": {40, 12, ErrRow},
			"one slab more":       {42, 3, ErrRow},
			"one slab fewer":      {42, 1, ErrRow},
			"slab name longer":    {64, 2, ErrRow},
		}},
		"slab": {EncodeSlab(nil, &s), func(b []byte) error { _, err := DecodeSlab(b); return err }, map[string]edit{
			"name longer":   {28, 6, ErrRow},
			"name too long": {29, 1, ErrRow},
			"device longer": {30, 7, ErrRow},
			"device cut":    {30, 5, ErrRow},
		}},
	} {
		common := map[string]edit{
			"version 2":           {0, 2, ErrIncompat},
			"reserved byte":       {1, 1, ErrRow},
			"extension from none": {2, 1, ErrRow},
			"long extension":      {3, 0xff, ErrRow},
			"incompat bit":        {12, 1, ErrIncompat},
		}
		for _, edits := range []map[string]edit{common, c.edits} {
			for name, e := range edits {
				b := bytes.Clone(c.good)
				b[e.off] = e.v
				if err := c.decode(reseal(b)); !errors.Is(err, e.want) {
					t.Errorf("%s, %s: got %v, want %v", what, name, err, e.want)
				}
			}
		}
		for _, b := range [][]byte{nil, c.good[:len(c.good)-1], append(bytes.Clone(c.good), 0), c.good[:20]} {
			if err := c.decode(b); !errors.Is(err, ErrRow) {
				t.Errorf("%s of %d bytes: got %v, want ErrRow", what, len(b), err)
			}
		}
		for i := range c.good {
			b := bytes.Clone(c.good)
			b[i] ^= 0x10
			if err := c.decode(b); err == nil {
				t.Errorf("%s: accepted a flipped bit in byte %d", what, i)
			}
		}
	}
}

// edit changes one byte under a right checksum.
type edit struct {
	off  int
	v    byte
	want error
}

func TestRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := NamespaceRecord{
			Quota:       rapid.Int64().Draw(t, "quota"),
			TTL:         time.Duration(rapid.Int64().Draw(t, "ttl")),
			Fingerprint: rapid.StringN(0, 300, -1).Draw(t, "fingerprint"),
			Seed:        rapid.Uint64().Draw(t, "seed"),
		}
		if slabs := rapid.SliceOf(rapid.StringN(0, 64, -1)).Draw(t, "slabs"); len(slabs) > 0 {
			n.Slabs = slabs
		}
		gotN, err := DecodeNamespace(EncodeNamespace(nil, &n))
		if d := cmp.Diff(n, gotN); d != "" || err != nil {
			t.Fatalf("namespace: %v (-want +got):\n%s", err, d)
		}
		s := SlabRecord{
			Name:     rapid.StringN(0, 64, -1).Draw(t, "name"),
			Device:   rapid.StringN(0, 300, -1).Draw(t, "device"),
			SlotSize: rapid.Int64().Draw(t, "slot size"),
			Slots:    rapid.Uint32().Draw(t, "slots"),
		}
		gotS, err := DecodeSlab(EncodeSlab(nil, &s))
		if d := cmp.Diff(s, gotS); d != "" || err != nil {
			t.Fatalf("slab: %v (-want +got):\n%s", err, d)
		}
	})
}

func TestEncodeRecordPanicsOnLongField(t *testing.T) {
	long := strings.Repeat("x", 1<<16)
	for what, encode := range map[string]func(){
		"fingerprint": func() { EncodeNamespace(nil, &NamespaceRecord{Fingerprint: long}) },
		"slab name":   func() { EncodeNamespace(nil, &NamespaceRecord{Slabs: []string{long}}) },
		"slabs":       func() { EncodeNamespace(nil, &NamespaceRecord{Slabs: make([]string, 1<<16)}) },
		"device":      func() { EncodeSlab(nil, &SlabRecord{Device: long}) },
		"ext":         func() { EncodeSlab(nil, &SlabRecord{Features: Features{Ext: []byte(long)}}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a %s of 64 Ki was encoded", what)
				}
			}()
			encode()
		}()
	}
}

// TestRecordsInTheStore: what was set is what a later open reads, in order; a
// delete and a Forget take it away, and a damaged record hides no other.
func TestRecordsInTheStore(t *testing.T) {
	mem := vfs.NewCrashableMem()
	db := mustOpen(t, mem)
	n, _, _ := goldenNamespace()
	s, _, _ := goldenSlab()
	b := db.NewBatch()
	for _, name := range []string{"b", "a", "a/b", "gone"} {
		n.Quota++
		b.SetNamespace(name, &n)
	}
	b.DeleteNamespace("gone")
	for i := range byte(4) {
		s.Slots = uint32(i)
		b.SetSlab(inc(i), s)
	}
	b.SetMount(inc(2), 7)
	b.Forget(inc(2))
	must(t, db.Commit(b, true))
	must(t, db.pb.Set(namespaceKey("damaged"), []byte{1}, pebble.Sync))
	must(t, db.pb.Set(slabKey(inc(3)), []byte{1}, pebble.Sync))
	mustClose(t, db)

	db = mustOpen(t, clone(mem, 0, 0))
	defer mustClose(t, db)
	got, bad := map[string]int64{}, []string{}
	order := []string{}
	must(t, db.Namespaces(func(name string, r NamespaceRecord, err error) {
		if err != nil {
			bad = append(bad, name)
			return
		}
		order = append(order, name)
		got[name] = r.Quota - n.Quota
	}))
	if d := cmp.Diff(map[string]int64{"b": -3, "a": -2, "a/b": -1}, got); d != "" || !cmp.Equal(bad, []string{"damaged"}) {
		t.Errorf("bad %q, quotas (-want +got):\n%s", bad, d)
	}
	if !cmp.Equal(order, []string{"a", "a/b", "b"}) {
		t.Errorf("order %q", order)
	}
	slabs, err := db.Slabs()
	if !errors.Is(err, ErrRow) || !strings.Contains(err.Error(), inc(3).String()) {
		t.Errorf("slabs: got %v, want ErrRow with the incarnation", err)
	}
	want := []SlabRecord{s, s}
	want[0].Inc, want[0].Slots = inc(0), 0
	want[1].Inc, want[1].Slots = inc(1), 1
	if d := cmp.Diff(want, slabs); d != "" {
		t.Errorf("slabs (-want +got):\n%s", d)
	}
	if one, ok, err := db.Slab(inc(1)); !ok || err != nil || !cmp.Equal(one, want[1]) {
		t.Errorf("slab 1: %+v %v %v", one, ok, err)
	}
	if _, ok, err := db.Slab(inc(2)); ok || err != nil {
		t.Errorf("a forgotten slab: %v %v", ok, err)
	}
}

func FuzzDecodeNamespace(f *testing.F) {
	n, _, _ := goldenNamespace()
	f.Add(EncodeNamespace(nil, &n))
	f.Add(EncodeNamespace(nil, &NamespaceRecord{}))
	f.Add(EncodeNamespace(nil, &NamespaceRecord{Slabs: []string{""}, Features: Features{Compat: 7, Ext: []byte{1}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzzRecord(t, b, DecodeNamespace, EncodeNamespace)
	})
}

func FuzzDecodeSlab(f *testing.F) {
	s, _, _ := goldenSlab()
	f.Add(EncodeSlab(nil, &s))
	f.Add(EncodeSlab(nil, &SlabRecord{}))
	f.Add(EncodeSlab(nil, &SlabRecord{Features: Features{Compat: 7, Ext: []byte{1}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzzRecord(t, b, DecodeSlab, EncodeSlab)
	})
}

// fuzzRecord demands that what is accepted re-encodes to the same bytes.
func fuzzRecord[T any](t *testing.T, b []byte, decode func([]byte) (T, error), encode func([]byte, *T) []byte) {
	if len(b) >= recordHead+recordCRC {
		b = reseal(b) // else the checksum would stop all but the seeds
	}
	r, err := decode(b)
	if err != nil {
		if !errors.Is(err, ErrRow) && !errors.Is(err, ErrIncompat) {
			t.Fatalf("foreign error %v", err)
		}
		return
	}
	if again := encode(nil, &r); !bytes.Equal(again, b) {
		t.Fatalf("accepted\n%x\nre-encodes to\n%x", b, again)
	}
}
