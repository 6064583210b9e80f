// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Frame is the line in front of one key's bytes.
//
//	{"key":"…","status":"ok","bytes":N}\n  N bytes
//	{"key":"…","status":"missing","bytes":0}\n
//
// Status is always there in a load and never needed in a store, where a frame of
// no bytes is well-formed but answered size_mismatch. A key that is not valid
// UTF-8, or is longer than maxFrameKey, is written, and read, as the empty string:
// frames come in request order, so the place says which key it is.
type Frame struct {
	Key    string
	Status Status // "" when the line has none
	Bytes  int64  // payload bytes that follow
	Error  string // why, for people; only where Status is not ok
}

// maxLine bounds the line of a frame: the longest key with every byte escaped,
// the longest error, and room for new fields.
const (
	maxLine  = 16 << 10
	maxError = 1 << 10

	// maxFrameKey is beyond any key there is, so that most which are too long are
	// told so; one of whatever length would make a line that nobody reads.
	maxFrameKey = 2 * MaxKeyBytes
)

// IsFramed tells whether frames carry a key as it is; else as the empty string.
func IsFramed(key string) bool { return len(key) <= maxFrameKey && utf8.ValidString(key) }

// ErrFrame is what every malformed frame is. Use errors.Is.
var ErrFrame = errors.New("malformed frame")

// FrameError says which frame is malformed, and how. It wraps ErrFrame, and
// io.ErrUnexpectedEOF where the stream ended inside a frame.
type FrameError struct {
	Frame  int    // counted from 0
	Field  string // the field at fault, or ""
	Reason string
	cause  error
}

// Error implements error.
func (e *FrameError) Error() string {
	s := fmt.Sprintf("frame %d: ", e.Frame)
	if e.Field != "" {
		s += e.Field + ": "
	}
	return s + e.Reason
}

// Unwrap implements errors.Unwrap.
func (e *FrameError) Unwrap() []error {
	if e.cause != nil {
		return []error{ErrFrame, e.cause}
	}
	return []error{ErrFrame}
}

// FrameReader reads frames. Large reads go past its buffer straight to the
// source.
type FrameReader struct {
	r    *bufio.Reader
	n    int   // frames begun
	left int64 // body bytes of the current frame not yet read
	err  error // sticky
}

// NewFrameReader returns a reader of the frames in r.
func NewFrameReader(r io.Reader) *FrameReader {
	return &FrameReader{r: bufio.NewReaderSize(r, maxLine)}
}

// Next skips what is left of the current frame's body and reads the next
// line. It returns io.EOF where the stream ends between frames, a *FrameError
// where it is malformed, and the source's own error otherwise.
func (f *FrameReader) Next() (Frame, error) {
	if _, err := io.Copy(io.Discard, f); err != nil {
		return Frame{}, err
	}
	if f.err != nil {
		return Frame{}, f.err
	}
	line, err := f.r.ReadSlice('\n')
	switch {
	case err == nil:
	case errors.Is(err, io.EOF) && len(line) == 0:
		return Frame{}, f.stop(io.EOF)
	case errors.Is(err, io.EOF):
		return Frame{}, f.stop(f.bad("", "the stream ends inside the line", io.ErrUnexpectedEOF))
	case errors.Is(err, bufio.ErrBufferFull):
		return Frame{}, f.stop(f.bad("", "the line is longer than "+strconv.Itoa(maxLine)+" bytes", nil))
	default:
		return Frame{}, f.stop(fmt.Errorf("frame %d: %w", f.n, err))
	}
	fr, err := parseLine(line[:len(line)-1])
	if err != nil {
		p := &Problem{}
		errors.As(err, &p)
		return Frame{}, f.stop(f.bad(p.Field, reason(p), nil))
	}
	f.n++
	f.left = fr.Bytes
	return fr, nil
}

// Await waits until the current frame's body begins to arrive.
func (f *FrameReader) Await() error {
	if f.err != nil || f.left == 0 {
		return f.err
	}
	if _, err := f.r.Peek(1); err != nil {
		return f.broken(err)
	}
	return nil
}

// Read reads the current frame's body; io.EOF ends it.
func (f *FrameReader) Read(p []byte) (int, error) {
	if f.err != nil && f.left > 0 {
		return 0, f.err
	}
	if f.left == 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > f.left {
		p = p[:f.left]
	}
	n, err := f.r.Read(p)
	f.left -= int64(n)
	if err == nil || f.left == 0 {
		return n, nil
	}
	return n, f.broken(err)
}

// broken is what an error inside the current frame's body means.
func (f *FrameReader) broken(err error) error {
	if errors.Is(err, io.EOF) {
		f.n--
		return f.stop(f.bad("bytes", fmt.Sprintf("the stream ends %d bytes before the frame does", f.left), io.ErrUnexpectedEOF))
	}
	return f.stop(fmt.Errorf("frame %d: %w", f.n-1, err))
}

// Left returns how many bytes of the current frame's body are still unread.
func (f *FrameReader) Left() int64 { return f.left }

func (f *FrameReader) stop(err error) error {
	f.err = err
	return err
}

func (f *FrameReader) bad(field, why string, cause error) *FrameError {
	return &FrameError{Frame: f.n, Field: field, Reason: why, cause: cause}
}

func reason(p *Problem) string {
	switch {
	case p.Detail == "":
		return p.Title
	case p.Code == CodeMalformedJSON:
		return "the line is no JSON object: " + p.Detail
	}
	return p.Detail
}

func parseLine(line []byte) (Frame, error) {
	fr := Frame{Bytes: -1}
	s := scanner{b: line}
	keySeen := false
	err := s.object("", func(name string) error {
		switch name {
		case "key":
			if s.peek() != '"' {
				return badField(CodeInvalidField, name, "want a string")
			}
			key, ok, err := s.text()
			if ok && IsFramed(key) {
				fr.Key = key
			}
			keySeen = true
			return err
		case "status":
			return s.str(name, (*string)(&fr.Status))
		case "bytes":
			return s.integer(name, 0, math.MaxInt64, &fr.Bytes)
		case "error":
			return s.str(name, &fr.Error)
		}
		return unknown("", name)
	})
	switch {
	case err != nil:
		return fr, err
	case !keySeen:
		return fr, badField(CodeMissingField, "key", "the line has no key")
	case fr.Bytes < 0:
		return fr, badField(CodeMissingField, "bytes", "the line has no length")
	case fr.Status != "" && !fr.Status.Valid():
		return fr, badField(CodeInvalidField, "status", "unknown status")
	case fr.Bytes > 0 && fr.Status != "" && fr.Status != StatusOK:
		return fr, badField(CodeInvalidField, "bytes", "only an ok frame has a body")
	}
	return fr, s.end()
}

// FrameWriter writes frames. It does not buffer: a line is one Write, and
// every Write of a body goes to the destination as it is.
type FrameWriter struct {
	w    io.Writer
	line []byte
	left int64
}

// NewFrameWriter returns a writer of frames to w.
func NewFrameWriter(w io.Writer) *FrameWriter { return &FrameWriter{w: w} }

// Begin writes the line of the next frame. It fails if the body of the last
// one is not complete.
func (f *FrameWriter) Begin(fr Frame) error {
	if f.left != 0 {
		return fmt.Errorf("%w: the last frame still wants %d bytes", ErrFrame, f.left)
	}
	if fr.Bytes < 0 {
		return fmt.Errorf("%w: negative length %d", ErrFrame, fr.Bytes)
	}
	f.line = AppendFrame(f.line[:0], fr)
	if _, err := f.w.Write(f.line); err != nil {
		return err
	}
	f.left = fr.Bytes
	return nil
}

// Write writes bytes of the current frame's body.
func (f *FrameWriter) Write(p []byte) (int, error) {
	if int64(len(p)) > f.left {
		return 0, fmt.Errorf("%w: %d bytes too many", ErrFrame, int64(len(p))-f.left)
	}
	n, err := f.w.Write(p)
	f.left -= int64(n)
	return n, err
}

// Close fails if the body of the last frame is not complete. It does not close
// the destination.
func (f *FrameWriter) Close() error {
	if f.left != 0 {
		return fmt.Errorf("%w: the last frame still wants %d bytes", ErrFrame, f.left)
	}
	return nil
}

// AppendFrame appends the line of fr.
func AppendFrame(b []byte, fr Frame) []byte {
	b = append(b, `{"key":`...)
	if !IsFramed(fr.Key) {
		fr.Key = ""
	}
	b = appendString(b, fr.Key)
	if fr.Status != "" {
		b = append(b, `,"status":"`...)
		b = append(b, fr.Status...)
		b = append(b, '"')
	}
	b = append(b, `,"bytes":`...)
	b = strconv.AppendInt(b, fr.Bytes, 10)
	if fr.Error != "" {
		b = append(b, `,"error":`...)
		b = appendString(b, strings.ToValidUTF8(fr.Error[:min(len(fr.Error), maxError)], ""))
	}
	return append(b, "}\n"...)
}
