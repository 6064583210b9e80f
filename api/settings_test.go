// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func ptr[V any](v V) *V { return &v }

func TestDecodeNamespace(t *testing.T) {
	for body, want := range map[string]NamespaceRequest{
		`{}`: {},
		`{"slabs":null,"quota":null,"ttl_ms":null,"fingerprint":null}`: {},
		`{"slabs":[],"quota":0,"ttl_ms":0,"fingerprint":""}`:           {Slabs: ptr([]string{}), Quota: ptr(int64(0)), TTLMS: ptr(int64(0)), Fingerprint: ptr("")},
		`{"slabs":["fast0","é"],"quota":9223372036854775807}`:          {Slabs: ptr([]string{"fast0", "é"}), Quota: ptr(int64(9223372036854775807))},
	} {
		got, err := DecodeNamespace([]byte(body))
		if err != nil {
			t.Errorf("%s: %v", body, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", body, d)
		}
		// What a client writes means the same.
		text, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		again, err := DecodeNamespace(text)
		if d := cmp.Diff(want, again); d != "" || err != nil {
			t.Errorf("%s: %v %s", text, err, d)
		}
	}
}

func TestDecodeTouch(t *testing.T) {
	got, err := DecodeTouch([]byte(`{"namespace":"n","keys":["a"],"ttl_ms":7,"deadline_ms":9}`), 1)
	if d := cmp.Diff(TouchRequest{Batch: Batch{Namespace: "n", Keys: Keys{"a"}, DeadlineMS: 9}, TTLMS: 7}, got); d != "" || err != nil {
		t.Errorf("%v %s", err, d)
	}
}

func TestDecodeSettingsRefuses(t *testing.T) {
	put := func(b string) error { _, err := DecodeNamespace([]byte(b)); return err }
	clear := func(b string) error { _, err := DecodeClear([]byte(b), "n"); return err }
	touch := func(b string) error { _, err := DecodeTouch([]byte(b), 1); return err }
	for i, c := range []struct {
		decode            func(string) error
		body, code, field string
	}{
		{put, ``, CodeMalformedJSON, ""},
		{put, `[]`, CodeMalformedJSON, ""},
		{put, `{}{}`, CodeMalformedJSON, ""},
		{put, `{"name":"n"}`, CodeUnknownField, "name"},
		{put, `{"entries":1}`, CodeUnknownField, "entries"},
		{put, `{"Quota":1}`, CodeUnknownField, "Quota"},
		{put, `{"quota":1,"quota":2}`, CodeInvalidField, "quota"},
		{put, `{"quota":-1}`, CodeInvalidField, "quota"},
		{put, `{"quota":1.5}`, CodeInvalidField, "quota"},
		{put, `{"quota":"1GiB"}`, CodeInvalidField, "quota"},
		{put, `{"ttl_ms":-1}`, CodeInvalidField, "ttl_ms"},
		{put, `{"ttl_ms":31536000001}`, CodeInvalidField, "ttl_ms"},
		{put, `{"slabs":"fast0"}`, CodeInvalidField, "slabs"},
		{put, `{"slabs":[1]}`, CodeInvalidField, "slabs"},
		{put, `{"slabs":[null]}`, CodeInvalidField, "slabs"},
		{put, `{"slabs":["a","a"]}`, CodeInvalidField, "slabs"},
		{put, "{\"slabs\":[\"\xff\"]}", CodeInvalidField, "slabs"},
		{put, `{"fingerprint":7}`, CodeInvalidField, "fingerprint"},
		{put, `{"fingerprint":"\ud800"}`, CodeInvalidField, "fingerprint"},
		{put, `{"fingerprint":"` + strings.Repeat("f", MaxFingerprintBytes+1) + `"}`, CodeInvalidField, "fingerprint"},
		{clear, ``, CodeMalformedJSON, ""},
		{clear, `{}`, CodeMissingField, "confirm"},
		{clear, `{"confirm":null}`, CodeMissingField, "confirm"},
		{clear, `{"confirm":""}`, CodeMissingField, "confirm"},
		{clear, `{"confirm":"N"}`, CodeInvalidField, "confirm"},
		{clear, `{"confirm":true}`, CodeInvalidField, "confirm"},
		{clear, "{\"confirm\":\"n\xff\"}", CodeInvalidField, "confirm"},
		{clear, `{"confirm":"n","force":true}`, CodeUnknownField, "force"},
		{clear, `{"confirm":"n","confirm":"n"}`, CodeInvalidField, "confirm"},
		{clear, `{"confirm":"n","deadline_ms":0}`, CodeInvalidField, "deadline_ms"},
		{touch, `{"namespace":"n","keys":["a"],"ttl_ms":-1}`, CodeInvalidField, "ttl_ms"},
		{touch, `{"namespace":"n","keys":["a"],"ttl":1}`, CodeUnknownField, "ttl"},
		{touch, `{"namespace":"n","keys":["a","b"]}`, CodeTooManyKeys, "keys"},
		{touch, `{"namespace":"n"}`, CodeMissingField, "keys"},
		{touch, `{"keys":["a"]}`, CodeMissingField, "namespace"},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			var p *Problem
			if err := c.decode(c.body); !errors.As(err, &p) || p.Code != c.code || p.Field != c.field {
				t.Errorf("%s: got %v, want %s in %q", c.body, err, c.code, c.field)
			}
		})
	}
}

// The settings' decoders take any body without harm.
func FuzzDecodeNamespace(f *testing.F) {
	f.Add([]byte(`{"slabs":["a"],"quota":1,"ttl_ms":2,"fingerprint":"f"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := DecodeNamespace(body)
		if err != nil {
			return
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		again, err := DecodeNamespace(text)
		if d := cmp.Diff(r, again); d != "" || err != nil {
			t.Fatalf("%s: %v %s", text, err, d)
		}
	})
}
