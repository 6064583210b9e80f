// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/binary"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// scanner reads one JSON text held whole in memory, driven by the caller, who
// knows what comes next: nothing is ever skipped, so nothing unknown passes.
// Its errors are *Problem.
type scanner struct {
	b []byte
	i int
	s string // b as text; of a line, once a first string was cut from it: a copy for all instead of one each
}

// over scans a body that nobody changes any more: its strings are parts of it, and
// keep it in memory as long as they live. A copy would take as much again.
func over(body []byte) scanner {
	return scanner{b: body, s: unsafe.String(unsafe.SliceData(body), len(body))}
}

func (s *scanner) fail(what string) *Problem {
	return badField(CodeMalformedJSON, "", "%s at byte %d", what, s.i)
}

// peek returns the next byte that is no white space, or 0 at the end.
func (s *scanner) peek() byte {
	for s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return c
		}
	}
	return 0
}

func (s *scanner) expect(c byte) error {
	if s.peek() != c || s.i >= len(s.b) {
		return s.fail("want " + strconv.QuoteRune(rune(c)))
	}
	s.i++
	return nil
}

// end fails unless only white space is left.
func (s *scanner) end() error {
	s.peek()
	if s.i < len(s.b) {
		return s.fail("unexpected bytes after the object")
	}
	return nil
}

// literal consumes word if it comes next.
func (s *scanner) literal(word string) bool {
	s.peek()
	if len(s.b)-s.i < len(word) || string(s.b[s.i:s.i+len(word)]) != word {
		return false
	}
	s.i += len(word)
	return true
}

func (s *scanner) null() bool { return s.literal("null") }

// object calls member for every name; member must consume the value. path is
// what names are reported under ("" at the top).
func (s *scanner) object(path string, member func(name string) error) error {
	if err := s.expect('{'); err != nil {
		if path != "" {
			return badField(CodeInvalidField, path, "want an object")
		}
		return err
	}
	if s.peek() == '}' {
		s.i++
		return nil
	}
	var seen []string
	for {
		if s.peek() != '"' {
			return s.fail("want a field name")
		}
		name, ok, err := s.text()
		if err != nil {
			return err
		}
		if !ok {
			return s.fail("a field name is not Unicode")
		}
		for _, n := range seen {
			if n == name {
				return badField(CodeInvalidField, join(path, name), "the field stands twice")
			}
		}
		seen = append(seen, name)
		if err := s.expect(':'); err != nil {
			return err
		}
		if err := member(name); err != nil {
			return err
		}
		if more, err := s.more('}'); !more {
			return err
		}
	}
}

// array calls element for every element, which must consume it.
func (s *scanner) array(field string, element func() error) error {
	if s.peek() != '[' {
		return badField(CodeInvalidField, field, "want a list")
	}
	s.i++
	if s.peek() == ']' {
		s.i++
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		if more, err := s.more(']'); !more {
			return err
		}
	}
}

// more consumes a comma (true) or the closing byte (false).
func (s *scanner) more(closing byte) (bool, error) {
	switch s.peek() {
	case ',':
		s.i++
		return true, nil
	case closing:
		s.i++
		return false, nil
	}
	return false, s.fail("want ',' or " + strconv.QuoteRune(rune(closing)))
}

// maxText is the longest string, in bytes, that any field has but keys: far more
// than any name takes. What is refused is named in answers and in the log, so it must
// not be as long as a body.
const maxText = 4 << 10

// str reads an optional string; null leaves dst alone.
func (s *scanner) str(field string, dst *string) error {
	if s.null() {
		return nil
	}
	if s.peek() != '"' {
		return badField(CodeInvalidField, field, "want a string")
	}
	v, ok, err := s.text()
	if err != nil {
		return err
	}
	if !ok {
		return badField(CodeInvalidField, field, "not valid UTF-8")
	}
	if len(v) > maxText {
		return badField(CodeInvalidField, field, "more than %d bytes", maxText)
	}
	*dst = strings.Clone(v) // it may outlive the request, whose body v is a part of
	return nil
}

// boolean reads an optional true or false; null leaves dst alone.
func (s *scanner) boolean(field string, dst *bool) error {
	switch {
	case s.null():
	case s.literal("true"):
		*dst = true
	case s.literal("false"):
		*dst = false
	default:
		return badField(CodeInvalidField, field, "want true or false")
	}
	return nil
}

// integer reads an optional whole number from min to max; null leaves dst alone.
func (s *scanner) integer(field string, min, max int64, dst *int64) error {
	if s.null() {
		return nil
	}
	s.peek()
	start := s.i
	for s.i < len(s.b) && isNumberByte(s.b[s.i]) {
		s.i++
	}
	return parseInt(field, string(s.b[start:s.i]), min, max, dst)
}

// parseInt parses a JSON integer: no fraction, no exponent, no leading zero.
func parseInt(field, text string, min, max int64, dst *int64) error {
	digits := text
	if digits != "" && digits[0] == '-' {
		digits = digits[1:]
	}
	plain := digits != "" && (digits[0] != '0' || digits == "0")
	for i := 0; i < len(digits); i++ {
		plain = plain && digits[i] >= '0' && digits[i] <= '9'
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if !plain || err != nil || v < min || v > max {
		return badField(CodeInvalidField, field, "want a whole number from %d to %d", min, max)
	}
	*dst = v
	return nil
}

func isNumberByte(c byte) bool {
	return c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E'
}

// text reads a string literal. ok is false when it is well-formed JSON but no
// Unicode: bytes that are not UTF-8, or the escape of a lone surrogate.
func (s *scanner) text() (v string, ok bool, err error) {
	s.i++ // the opening quote
	start := s.i
	ascii := true
	for {
		s.i += plain(s.b[s.i:])
		if s.i == len(s.b) {
			return "", false, s.fail("the string does not end")
		}
		switch c := s.b[s.i]; {
		case c == '"':
			if s.s == "" {
				s.s = string(s.b)
			}
			v = s.s[start:s.i]
			s.i++
			return v, ascii || utf8.ValidString(v), nil
		case c == '\\':
			return s.escaped(start)
		case c < 0x20:
			return "", false, s.fail("raw control character in a string")
		case c >= 0x80:
			ascii = false
		}
		s.i++
	}
}

// plain returns how many bytes b begins with that need no attention in a
// string: ASCII but no control character, quote or backslash. It looks at eight
// at a time; keys are most of what a request consists of.
func plain(b []byte) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	n := 0
	for ; len(b)-n >= 8; n += 8 {
		w := binary.LittleEndian.Uint64(b[n:])
		quote, slash := w^ones*'"', w^ones*'\\'
		// The high bit of a byte of each term: set where the byte is at least
		// 0x80, below 0x20, a quote, or a backslash. Borrows reach only bytes
		// above one that is found anyway.
		found := (w | (w - ones*0x20) | (quote - ones) | (slash - ones)) & highs
		if found != 0 {
			return n + bits.TrailingZeros64(found)/8
		}
	}
	for ; n < len(b); n++ {
		if c := b[n]; c < 0x20 || c >= 0x80 || c == '"' || c == '\\' {
			break
		}
	}
	return n
}

// escaped is text from the first backslash on.
func (s *scanner) escaped(start int) (string, bool, error) {
	out := append(make([]byte, 0, 2*(s.i-start)+32), s.b[start:s.i]...)
	unicode := true
	for s.i < len(s.b) {
		c := s.b[s.i]
		switch {
		case c == '"':
			s.i++
			return string(out), unicode && utf8.Valid(out), nil
		case c < 0x20:
			return "", false, s.fail("raw control character in a string")
		case c != '\\':
			out = append(out, c)
			s.i++
		default:
			r, ok := s.escape()
			if !ok {
				return "", false, s.fail("bad escape in a string")
			}
			if utf16.IsSurrogate(r) {
				unicode = false
				continue
			}
			out = utf8.AppendRune(out, r)
		}
	}
	return "", false, s.fail("the string does not end")
}

// escape reads one escape, or the two that make a surrogate pair. A lone
// surrogate comes back as itself.
func (s *scanner) escape() (rune, bool) {
	if s.i+1 >= len(s.b) {
		return 0, false
	}
	c := s.b[s.i+1]
	if c != 'u' {
		s.i += 2
		return shortEscape(c)
	}
	r, ok := hex4(s.b[s.i+2:])
	if !ok {
		return 0, false
	}
	s.i += 6
	if !utf16.IsSurrogate(r) || len(s.b)-s.i < 6 || s.b[s.i] != '\\' || s.b[s.i+1] != 'u' {
		return r, true
	}
	low, ok := hex4(s.b[s.i+2:])
	if pair := utf16.DecodeRune(r, low); ok && pair != utf8.RuneError {
		s.i += 6
		return pair, true
	}
	return r, true
}

func shortEscape(c byte) (rune, bool) {
	switch c {
	case '"', '\\', '/':
		return rune(c), true
	case 'b':
		return '\b', true
	case 'f':
		return '\f', true
	case 'n':
		return '\n', true
	case 'r':
		return '\r', true
	case 't':
		return '\t', true
	}
	return 0, false
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
