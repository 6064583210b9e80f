// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecodeLookup(t *testing.T) {
	got, err := DecodeLookup([]byte(` {"namespace":"default", "keys":["a","b\u002fc","\ud83d\ude00"],"deadline_ms":5,
		"prefix":true,"lease":{"ttl_ms":1000,"owner":"rank 0"}} `), 3)
	if err != nil {
		t.Fatal(err)
	}
	want := LookupRequest{
		Batch: Batch{Namespace: "default", Keys: Keys{"a", "b/c", "😀"}, DeadlineMS: 5},
		Lease: &LeaseRequest{TTLMS: 1000, Owner: "rank 0"}, Prefix: true,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// A key that is not Unicode must come out as no key, never as another's.
func TestDecodeKeysRaw(t *testing.T) {
	for name, c := range map[string]struct{ raw, want string }{
		"byte ff":             {"\xff", ""},
		"byte fe":             {"a\xfe", ""},
		"encoded surrogate":   {"\xed\xa0\x80", ""},
		"overlong slash":      {"\xc0\xaf", ""},
		"lone high":           {`\ud800`, ""},
		"lone low":            {`\udc00`, ""},
		"high, then no low":   {`\ud800a`, ""},
		"high, then high":     {`\ud800\ud800`, ""},
		"high, then escape":   {`\ud800\n`, ""},
		"lone in upper case":  {`x\uDBFFx`, ""},
		"bad byte, escape":    {"\\u0061\xff", ""},
		"pair":                {`\ud83d\ude00`, "😀"},
		"replacement, raw":    {"\ufffd", "\ufffd"},
		"replacement, escape": {`\ufffd`, "\ufffd"},
		"newline":             {`\n`, "\n"},
		"NUL":                 {`\u0000`, "\x00"},
		"escapes":             {`\"\\\/\b\f\n\r\t`, "\"\\/\b\f\n\r\t"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := DecodeLoad([]byte(`{"namespace":"n","keys":["first","`+c.raw+`","last"]}`), 10)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(Keys{"first", c.want, "last"}, r.Keys); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	lookup := func(b []byte, max int) error { _, err := DecodeLookup(b, max); return err }
	load := func(b []byte, max int) error { _, err := DecodeLoad(b, max); return err }
	remove := func(b []byte, max int) error { _, err := DecodeRemove(b, max); return err }
	pin := func(b []byte, max int) error { _, err := DecodePin(b, max); return err }
	unpin := func(b []byte, max int) error { _, err := DecodeUnpin(b, max); return err }
	for i, c := range []struct {
		decode      func([]byte, int) error
		body        string
		code, field string
	}{
		{lookup, ``, CodeMalformedJSON, ""},
		{lookup, `[]`, CodeMalformedJSON, ""},
		{lookup, `{"namespace":"n","keys":["a"]`, CodeMalformedJSON, ""},
		{lookup, `{"namespace":"n","keys":["a"]}x`, CodeMalformedJSON, ""},
		{lookup, `{"namespace":"n","keys":["a"],}`, CodeMalformedJSON, ""},
		{lookup, `{"namespace":"n","keys":["a",]}`, CodeInvalidField, "keys"},
		{lookup, `{"namespace":"n","keys":["a" "b"]}`, CodeMalformedJSON, ""},
		{lookup, `{"namespace":"n","keys":["a`, CodeMalformedJSON, ""},
		{lookup, "{\"namespace\":\"n\",\"keys\":[\"a\nb\"]}", CodeMalformedJSON, ""},
		{lookup, `{"namespace":"n","keys":["\x"]}`, CodeMalformedJSON, ""},
		{lookup, `{"namespace":"n","keys":["\u12"]}`, CodeMalformedJSON, ""},
		{lookup, "{\"name\xff\":1}", CodeMalformedJSON, ""},
		{lookup, `{"namespace":"n"}`, CodeMissingField, "keys"},
		{lookup, `{"namespace":"n","keys":null}`, CodeMissingField, "keys"},
		{lookup, `{"keys":["a"]}`, CodeMissingField, "namespace"},
		{lookup, `{"namespace":"","keys":["a"]}`, CodeMissingField, "namespace"},
		{lookup, `{"namespace":7,"keys":["a"]}`, CodeInvalidField, "namespace"},
		{lookup, `{"namespace":"\ud800","keys":["a"]}`, CodeInvalidField, "namespace"},
		{lookup, `{"namespace":"n","keys":"a"}`, CodeInvalidField, "keys"},
		{lookup, `{"namespace":"n","keys":["a",1]}`, CodeInvalidField, "keys"},
		{lookup, `{"namespace":"n","keys":[null]}`, CodeInvalidField, "keys"},
		{lookup, `{"namespace":"n","keys":["a","b","c","d"]}`, CodeTooManyKeys, "keys"},
		{lookup, `{"namespace":"n","Keys":["a"]}`, CodeUnknownField, "Keys"},
		{lookup, `{"namespace":"n","keys":["a"],"keys":["b"]}`, CodeInvalidField, "keys"},
		{lookup, `{"namespace":"n","keys":["a"],"force":true}`, CodeUnknownField, "force"},
		{lookup, `{"namespace":"n","keys":["a"],"deadline_ms":0}`, CodeInvalidField, "deadline_ms"},
		{lookup, `{"namespace":"n","keys":["a"],"deadline_ms":-1}`, CodeInvalidField, "deadline_ms"},
		{lookup, `{"namespace":"n","keys":["a"],"deadline_ms":1.5}`, CodeInvalidField, "deadline_ms"},
		{lookup, `{"namespace":"n","keys":["a"],"deadline_ms":1e3}`, CodeInvalidField, "deadline_ms"},
		{lookup, `{"namespace":"n","keys":["a"],"deadline_ms":9223372036854775808}`, CodeInvalidField, "deadline_ms"},
		{lookup, `{"namespace":"n","keys":["a"],"deadline_ms":9223372036854775807}`, CodeInvalidField, "deadline_ms"},
		{lookup, `{"namespace":"n","keys":["a"],"deadline_ms":"5"}`, CodeInvalidField, "deadline_ms"},
		{lookup, `{"namespace":"n","keys":["a"],"prefix":1}`, CodeInvalidField, "prefix"},
		{lookup, `{"namespace":"n","keys":["a"],"lease":"x"}`, CodeInvalidField, "lease"},
		{lookup, `{"namespace":"n","keys":["a"],"lease":{"ttl":1}}`, CodeUnknownField, "lease.ttl"},
		{lookup, `{"namespace":"n","keys":["a"],"lease":{"ttl_ms":-1}}`, CodeInvalidField, "lease.ttl_ms"},
		{lookup, `{"namespace":"n","keys":["a"],"lease":{"owner":"` + strings.Repeat("o", 257) + `"}}`, CodeInvalidField, "lease.owner"},
		{load, `{"namespace":"n","keys":["a"],"into":{"buffer":"x"}}`, CodeUnsupportedField, "into"},
		{load, `{"namespace":"n","keys":["a"],"allow_busy":true}`, CodeUnsupportedField, "allow_busy"},
		{DecodeStore, `{"namespace":"n","keys":["a"],"from":{"buffer":"x"}}`, CodeUnsupportedField, "from"},
		{DecodeStore, `{"namespace":"n","keys":["a"],"overwrite":true,"ttl_ms":1,"after":"b"}`, CodeMissingField, "from"},
		{DecodeStore, `{"namespace":"n","keys":["a"],"form":1}`, CodeUnknownField, "form"},
		{remove, `{"namespace":"n","keys":["a"],"force":"yes"}`, CodeInvalidField, "force"},
		{pin, `{"namespace":"n","keys":["a"],"ttl_ms":"1s"}`, CodeInvalidField, "ttl_ms"},
		{unpin, `{"namespace":"n","keys":["a"]}`, CodeMissingField, "lease"},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			err := c.decode([]byte(c.body), 3)
			var p *Problem
			if !errors.As(err, &p) {
				t.Fatalf("%s: got %v, want a problem", c.body, err)
			}
			if p.Code != c.code || p.Field != c.field {
				t.Errorf("%s: got %s in %q, want %s in %q", c.body, p.Code, p.Field, c.code, c.field)
			}
			if p.Status < 400 || p.Status > 499 || p.Title == "" || p.Title == "unknown status" {
				t.Errorf("%s: got status %d, title %q", c.body, p.Status, p.Title)
			}
		})
	}
}

func TestDecodeOptional(t *testing.T) {
	r, err := DecodeUnpin([]byte(`{"namespace":"n","lease":"l"}`), 3)
	if err != nil || r.Keys != nil {
		t.Errorf("got %v, %v, want no keys", r.Keys, err)
	}
	r, err = DecodeUnpin([]byte(`{"namespace":"n","lease":"l","keys":[]}`), 3)
	if err != nil || r.Keys == nil || len(r.Keys) != 0 {
		t.Errorf("got %v, %v, want an empty list", r.Keys, err)
	}
	l, err := DecodeLookup([]byte(`{"namespace":"n","keys":[],"lease":null,"prefix":null,"deadline_ms":null}`), 3)
	if err != nil || l.Lease != nil || l.Keys == nil {
		t.Errorf("got %+v, %v, want an empty batch without a lease", l, err)
	}
}

// FuzzDecode: whatever is accepted is JSON that encoding/json reads the same
// way (but for keys that are not Unicode), and survives a round trip.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"namespace":"n","keys":["a","\ud800","😀","\u00e9"],"prefix":true,"lease":{"ttl_ms":1,"owner":"o"}}`,
		`{"namespace":"n","keys":[],"deadline_ms":7,"lease":null}`,
		"{\"namespace\":\"n\",\"keys\":[\"\xff\"]}", `{`, `[]`, `{"keys":["a`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := DecodeLookup(body, 100)
		if err != nil {
			var p *Problem
			if !errors.As(err, &p) {
				t.Fatalf("got %T, want a problem", err)
			}
			return
		}
		var std LookupRequest
		if err := json.Unmarshal(body, &std); err != nil {
			t.Fatalf("accepted what encoding/json refuses: %v", err)
		}
		for i, k := range got.Keys {
			if k == "" {
				std.Keys[i] = ""
			}
		}
		if d := cmp.Diff(std, got); d != "" {
			t.Fatal(d)
		}
		again, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		back, err := DecodeLookup(again, 100)
		if err != nil {
			t.Fatalf("%s: %v", again, err)
		}
		if d := cmp.Diff(got, back); d != "" {
			t.Fatal(d)
		}
	})
}

func BenchmarkDecodeLookup(b *testing.B) {
	keys := make(Keys, 1000)
	for i := range keys {
		keys[i] = fmt.Sprintf("meta-llama/Llama-3.1-70B@8@0@%064x", i)
	}
	body, err := json.Marshal(LookupRequest{Batch: Batch{Namespace: "default", Keys: keys}})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeLookup(body, 16384); err != nil {
			b.Fatal(err)
		}
	}
}

// The keys of a body are parts of it: limits.json_bytes is charged for what arrives,
// and a copy would take as much again.
func TestDecodeCopiesNoBody(t *testing.T) {
	keys := make(Keys, 1000)
	for i := range keys {
		keys[i] = fmt.Sprintf("%04d%s", i, strings.Repeat("k", 1000))
	}
	text, err := json.Marshal(LookupRequest{Batch: Batch{Namespace: "n", Keys: keys}})
	if err != nil {
		t.Fatal(err)
	}
	for name, decode := range map[string]func() (Keys, error){
		"json": func() (Keys, error) { r, err := DecodeLookup(text, 1000); return r.Keys, err },
		"list": func() func() (Keys, error) {
			list := AppendKeyList(nil, keys)
			return func() (Keys, error) { return DecodeKeyList(list, 1000) }
		}(),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := decode()
		runtime.ReadMemStats(&after)
		if err != nil || got[0] != keys[0] {
			t.Errorf("%s: got %q, %v", name, got[0], err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > uint64(len(text))/4 {
			t.Errorf("%s: decoding %d bytes took %d more", name, len(text), n)
		}
	}
}
