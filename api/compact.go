// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// DecodeKeyList reads a list of at most maxKeys keys, one a line. Lines end with
// LF, which the last one may lack. Every line is a key and keeps its place: an
// empty one is no valid key, and a CR is part of its key, which makes that
// invalid. A key that is not Unicode becomes "", which is no key. The keys are parts of
// body, which nobody changes any more.
func DecodeKeyList(body []byte, maxKeys int) (Keys, error) {
	n := bytes.Count(body, []byte{'\n'})
	if len(body) > 0 && body[len(body)-1] != '\n' {
		n++
	}
	if n > maxKeys {
		return nil, TooManyKeys(maxKeys)
	}
	keys := make(Keys, 0, n)
	for text := over(body).s; text != ""; {
		key, rest, _ := strings.Cut(text, "\n")
		if !utf8.ValidString(key) {
			key = ""
		}
		keys, text = append(keys, key), rest
	}
	return keys, nil
}

// AppendKeyList appends keys, one a line. A key that would not be one line, or
// is too long for any key, becomes an empty line: it keeps its place and is
// answered invalid_key.
func AppendKeyList(b []byte, keys []string) []byte {
	for _, k := range keys {
		if len(k) <= MaxKeyBytes && strings.IndexByte(k, '\n') < 0 {
			b = append(b, k...)
		}
		b = append(b, '\n')
	}
	return b
}

// Bitmap has a bit for every key of a lookup, in request order, the least
// significant bit of the first byte first; set means that the key is stored. It
// is ⌈keys ÷ 8⌉ bytes long and its spare bits are zero.
type Bitmap []byte

// NewBitmap returns a bitmap for n keys, none of them set.
func NewBitmap(n int) Bitmap { return make(Bitmap, (n+7)/8) }

// Set sets bit i.
func (b Bitmap) Set(i int) { b[i/8] |= 1 << (i % 8) }

// Has tells whether bit i is set.
func (b Bitmap) Has(i int) bool { return b[i/8]&(1<<(i%8)) != 0 }
