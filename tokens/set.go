// SPDX-License-Identifier: Apache-2.0

package tokens

import (
	"crypto/sha256"
	"crypto/subtle"
)

// Lengths of a token, in bytes. A shorter one could be guessed.
const (
	MinBytes = 16
	MaxBytes = 4096
)

// Token is what one token may do.
type Token struct {
	Name       string          // for the log
	Everything bool            // all namespaces
	Namespaces map[string]bool // those it may use, unless Everything; not to be changed
	Admin      bool            // it may also read reports and change namespaces and slabs
}

// Set is the tokens of one file.
type Set struct {
	tokens []*Token
	hashes [][sha256.Size]byte // of tokens, in the same order
	equal  func(a, b []byte) int
}

func newSet() *Set { return &Set{equal: subtle.ConstantTimeCompare} }

// Len returns how many tokens there are.
func (s *Set) Len() int { return len(s.tokens) }

// Sum stands for a token that was presented, and does not tell it.
type Sum [sha256.Size]byte

// SumOf returns the sum of a token.
func SumOf(presented string) Sum { return sha256.Sum256([]byte(presented)) }

// Find returns the token that is presented, or nil. It compares with all of
// them, whatever is presented.
func (s *Set) Find(presented string) *Token {
	t := s.FindSum(SumOf(presented))
	// A file that gives a hash cannot be asked how long its token is.
	if len(presented) < MinBytes {
		return nil
	}
	return t
}

// FindSum returns the token of a sum that Find found a token for, in this Set or
// in one before it; nil: it is not there any more.
func (s *Set) FindSum(sum Sum) *Token {
	at := -1
	for i := range s.hashes {
		at = subtle.ConstantTimeSelect(s.equal(sum[:], s.hashes[i][:]), i, at)
	}
	if at < 0 {
		return nil
	}
	return s.tokens[at]
}
