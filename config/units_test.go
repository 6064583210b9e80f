// SPDX-License-Identifier: Apache-2.0

package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestParseSize(t *testing.T) {
	tests := map[string]Size{
		"0": 0, "4096": 4096, "1B": 1, "4KiB": 4096, "256MiB": 256 << 20, "256 MiB": 256 << 20,
		"1.5GiB": 3 << 29, "4GB": 4e9, "1TB": 1e12, "2TiB": 2 << 40, "3KB": 3000, "1MB": 1e6,
	}
	for text, want := range tests {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("ParseSize(%q): got %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "MiB", "1 2", "1..5MiB", "1kib", "1MiB ", "1  MiB", "0x10", "1e9", "-1", "+1", "1_000"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("ParseSize(%q): got %d, want an error", text, got)
		}
	}
}

func TestSizeIsReadAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Size(rapid.Int64Min(0).Draw(t, "bytes")) << rapid.IntRange(0, 3).Draw(t, "shift")
		if want < 0 {
			t.Skip("overflow")
		}
		if got, err := ParseSize(want.String()); err != nil || got != want {
			t.Fatalf("ParseSize(%q): got %d, %v, want %d", want.String(), got, err, want)
		}
	})
}

func FuzzLoad(f *testing.F) {
	f.Add(example)
	f.Add(short)
	f.Add("slabs: &s [*s]")
	f.Add("slabs: [{name: a, device: \"/dev/\\x7f\\u0085\\n#\\t\\U0001F600 # \"}]\nlisten: {unix_group: '~'}\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, from, err := merge(Default(), "f", []byte(text), nil)
		if err != nil {
			return
		}
		for name, write := range map[string]func() ([]byte, error){
			"YAML": c.YAML, "JSON": c.JSON, "annotated": func() ([]byte, error) { return c.Annotated(from) },
		} {
			out, err := write()
			if err != nil {
				t.Fatalf("accepted, but cannot be written as %s: %v", name, err)
			}
			again, err := load(Default(), "f", out, nil)
			if err != nil {
				t.Fatalf("accepted, but not what it prints as %s: %v\n%s", name, err, out)
			}
			if diff := cmp.Diff(c, again); diff != "" {
				t.Fatalf("%s reads differently (-want +got):\n%s\n%s", name, diff, out)
			}
		}
	})
}
