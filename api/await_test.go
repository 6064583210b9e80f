// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
)

// Await returns when a frame's body begins, and has the errors that reading it would
// have.
func TestFrameAwait(t *testing.T) {
	const line = `{"key":"a","bytes":3}` + "\n"
	for name, c := range map[string]struct {
		rest io.Reader
		want error
	}{
		"whole":   {strings.NewReader("abc"), nil},
		"a byte":  {io.MultiReader(strings.NewReader("a"), iotest.ErrReader(os.ErrDeadlineExceeded)), nil},
		"ends":    {strings.NewReader(""), io.ErrUnexpectedEOF},
		"expires": {iotest.ErrReader(os.ErrDeadlineExceeded), os.ErrDeadlineExceeded},
	} {
		f := NewFrameReader(io.MultiReader(strings.NewReader(line), c.rest))
		if _, err := f.Next(); err != nil {
			t.Fatal(err)
		}
		err := f.Await()
		if !errors.Is(err, c.want) || c.want == io.ErrUnexpectedEOF != errors.Is(err, ErrFrame) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		if again := f.Await(); !errors.Is(again, c.want) {
			t.Errorf("%s: the second time %v", name, again)
		}
		if c.want == nil && name == "whole" {
			if b, err := io.ReadAll(f); string(b) != "abc" || err != nil {
				t.Errorf("%s: then got %q, %v", name, b, err)
			}
		}
	}
	f := NewFrameReader(strings.NewReader(`{"key":"a","bytes":0}` + "\n"))
	if _, err := f.Next(); err != nil {
		t.Fatal(err)
	}
	if err := f.Await(); err != nil {
		t.Errorf("a frame without a body: %v", err)
	}
}
