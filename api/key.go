// SPDX-License-Identifier: Apache-2.0

package api

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Keys is the list of keys of a batch. It marshals a key that is not valid
// UTF-8 as the empty string, so that the server answers it invalid_key instead
// of mistaking it for another key.
type Keys []string

// MarshalJSON implements json.Marshaler.
func (k Keys) MarshalJSON() ([]byte, error) {
	n := 2
	for _, s := range k {
		n += len(s) + 3
	}
	b := append(make([]byte, 0, n), '[')
	for i, s := range k {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendKey(b, s)
	}
	return append(b, ']'), nil
}

// CheckKey returns a *Problem with code invalid_key unless key is 1 to 1,024
// bytes of valid UTF-8 without control characters.
func CheckKey(key string) error {
	switch {
	case key == "":
		return StatusProblem(StatusInvalidKey, "the key is empty, not Unicode, or far too long")
	case len(key) > MaxKeyBytes:
		p := StatusProblem(StatusInvalidKey, "")
		p.Detail = "the key has more than 1024 bytes"
		return p
	case !utf8.ValidString(key):
		return StatusProblem(StatusInvalidKey, "the key is not valid UTF-8; write binary keys in lower-case hex")
	case strings.ContainsFunc(key, unicode.IsControl):
		return StatusProblem(StatusInvalidKey, "the key holds a control character")
	}
	return nil
}

// appendKey appends key as a JSON string, or "" when it is not valid UTF-8.
func appendKey(b []byte, key string) []byte {
	if !utf8.ValidString(key) {
		return append(b, '"', '"')
	}
	return appendString(b, key)
}

// appendString appends s, which must be valid UTF-8, as a JSON string.
func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c != 0x7f {
			continue
		}
		b = append(b, s[start:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		start = i + 1
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}
