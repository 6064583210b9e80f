// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func TestFramesRoundTrip(t *testing.T) {
	frames := []Frame{
		{Key: "a", Status: StatusOK, Bytes: 5},
		{Key: "q\"\\\u2028/ключ", Status: StatusOK, Bytes: 1},
		{Key: "gone", Status: StatusMissing},
		{Key: "bad", Status: StatusIOError, Error: "EIO: read of slot 7 on \"fast0\""},
		{Key: "no status", Bytes: 100000},
		{Key: strings.Repeat("\\", MaxKeyBytes), Status: StatusOK, Bytes: 3, Error: ""},
		{Key: "long error", Status: StatusIOError, Error: strings.Repeat("\x01", 4096)},
	}
	var b bytes.Buffer
	w := NewFrameWriter(&b)
	for _, f := range frames {
		if err := w.Begin(f); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(bytes.Repeat([]byte(f.Key[:1]), int(f.Bytes))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	frames[6].Error = frames[6].Error[:maxError]
	for name, src := range map[string]io.Reader{
		"whole": bytes.NewReader(b.Bytes()), "one byte": iotest.OneByteReader(bytes.NewReader(b.Bytes())),
		"data and EOF": iotest.DataErrReader(bytes.NewReader(b.Bytes())),
	} {
		t.Run(name, func(t *testing.T) {
			r := NewFrameReader(src)
			for i, want := range frames {
				got, err := r.Next()
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("frame %d: %s", i, d)
				}
				if i%2 == 1 {
					continue // Next skips the body
				}
				body, err := io.ReadAll(r)
				if err != nil || !bytes.Equal(body, bytes.Repeat([]byte(want.Key[:1]), int(want.Bytes))) {
					t.Errorf("frame %d: got %d bytes, %v", i, len(body), err)
				}
			}
			if _, err := r.Next(); err != io.EOF {
				t.Errorf("got %v, want io.EOF", err)
			}
		})
	}
}

// A key that is not Unicode comes out empty, on either side.
func TestFrameInvalidKey(t *testing.T) {
	var b bytes.Buffer
	w := NewFrameWriter(&b)
	if err := w.Begin(Frame{Key: "\xff", Status: StatusInvalidKey}); err != nil {
		t.Fatal(err)
	}
	b.WriteString("{\"key\":\"\xfe\",\"bytes\":1}\nx" + `{"key":"\ud800","bytes":0}` + "\n")
	r := NewFrameReader(&b)
	for range 3 {
		f, err := r.Next()
		if err != nil || f.Key != "" {
			t.Errorf("got %q, %v, want no key", f.Key, err)
		}
	}
}

func TestFrameMalformed(t *testing.T) {
	good := `{"key":"a","bytes":1}` + "\nx"
	for in, field := range map[string]string{
		"\n":                             "",
		"{}\n":                           "key",
		`{"key":"a"}` + "\n":             "bytes",
		`{"bytes":1}` + "\nx":            "key",
		`{"key":1,"bytes":1}` + "\n":     "key",
		`{"key":"a","bytes":-1}` + "\n":  "bytes",
		`{"key":"a","bytes":1.0}` + "\n": "bytes",
		`{"key":"a","bytes":"1"}` + "\n": "bytes",
		`{"key":"a","bytes":99999999999999999999}` + "\n":      "bytes",
		`{"key":"a","bytes":1,"size":1}` + "\n":                "size",
		`{"key":"a","key":"b","bytes":1}` + "\n":               "key",
		`{"key":"a","status":"fine","bytes":1}` + "\n":         "status",
		`{"key":"a","status":"missing","bytes":1}` + "\nx":     "bytes",
		`{"key":"a","bytes":1} x` + "\n":                       "",
		`{"key":"a","bytes":1`:                                 "",
		`{"key":"a","bytes":2}` + "\nx":                        "bytes",
		`{"key":"` + strings.Repeat("a", maxLine) + `"` + "\n": "",
	} {
		r := NewFrameReader(strings.NewReader(good + in))
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
		_, err := r.Next()
		if err == nil {
			_, err = r.Next()
		}
		var fe *FrameError
		if !errors.Is(err, ErrFrame) || !errors.As(err, &fe) {
			t.Errorf("%.60q: got %v, want a FrameError", in, err)
			continue
		}
		if fe.Frame != 1 || fe.Field != field {
			t.Errorf("%.60q: got frame %d, field %q, want 1, %q: %v", in, fe.Frame, fe.Field, field, fe)
		}
		if cut := !strings.HasSuffix(in, "\n") && !strings.Contains(in, "missing") && !strings.HasPrefix(in, `{"bytes`); errors.Is(err, io.ErrUnexpectedEOF) != cut {
			t.Errorf("%.60q: got %v, want unexpected EOF: %v", in, err, cut)
		}
		if _, again := r.Next(); again != err {
			t.Errorf("%.60q: got %v after %v, want it to stick", in, again, err)
		}
	}
}

// The source's own errors are not the sender's malformed frames.
func TestFrameSourceError(t *testing.T) {
	broken := errors.New("reset")
	for _, in := range []string{"", `{"key":`, `{"key":"a","bytes":9}` + "\nxy"} {
		r := NewFrameReader(io.MultiReader(strings.NewReader(in), iotest.ErrReader(broken)))
		_, err := r.Next()
		if err == nil {
			_, err = io.ReadAll(r)
		}
		if !errors.Is(err, broken) || errors.Is(err, ErrFrame) {
			t.Errorf("%q: got %v, want the source's error alone", in, err)
		}
	}
}

func TestFrameWriterMisuse(t *testing.T) {
	w := NewFrameWriter(io.Discard)
	if err := w.Begin(Frame{Key: "a", Bytes: -1}); !errors.Is(err, ErrFrame) {
		t.Errorf("negative length: got %v", err)
	}
	if err := w.Begin(Frame{Key: "a", Bytes: 2}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("abc")); !errors.Is(err, ErrFrame) {
		t.Errorf("too many bytes: got %v", err)
	}
	if err := w.Begin(Frame{Key: "b"}); !errors.Is(err, ErrFrame) {
		t.Errorf("body not complete: got %v", err)
	}
	if err := w.Close(); !errors.Is(err, ErrFrame) {
		t.Errorf("body not complete: got %v", err)
	}
}

// FuzzFrames: what is accepted re-encodes to frames that read the same.
func FuzzFrames(f *testing.F) {
	f.Add([]byte(`{"key":"a","status":"ok","bytes":3}` + "\nabc" + `{"key":"b","status":"missing","bytes":0}` + "\n"))
	f.Add([]byte(`{"key":"\ud800","bytes":1}` + "\nx{"))
	f.Add([]byte("{\"bytes\":2,\"key\":\"\xff\"}\nxy"))
	f.Add([]byte(`{"key":"a","bytes":9223372036854775807}` + "\nabc"))
	f.Fuzz(func(t *testing.T, in []byte) {
		frames, bodies, err := readFrames(in)
		if err != io.EOF && !errors.Is(err, ErrFrame) {
			t.Fatalf("got %v, want io.EOF or a FrameError", err)
		}
		var b bytes.Buffer
		w := NewFrameWriter(&b)
		for i, fr := range frames {
			if err := w.Begin(fr); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(bodies[i]); err != nil {
				t.Fatal(err)
			}
		}
		again, bodiesAgain, err := readFrames(b.Bytes())
		if err != io.EOF {
			t.Fatalf("re-encoded: %v", err)
		}
		for i := range frames {
			frames[i].Error = frames[i].Error[:min(len(frames[i].Error), maxError)]
			frames[i].Error = strings.ToValidUTF8(frames[i].Error, "")
		}
		if d := cmp.Diff(frames, again); d != "" {
			t.Fatal(d)
		}
		if d := cmp.Diff(bodies, bodiesAgain); d != "" {
			t.Fatal(d)
		}
	})
}

// readFrames reads whole frames until something is wrong.
func readFrames(in []byte) (frames []Frame, bodies [][]byte, err error) {
	r := NewFrameReader(bytes.NewReader(in))
	for {
		f, err := r.Next()
		if err != nil {
			return frames, bodies, err
		}
		body, err := io.ReadAll(r)
		if err != nil {
			return frames, bodies, err
		}
		frames, bodies = append(frames, f), append(bodies, body)
	}
}
