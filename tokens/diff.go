// SPDX-License-Identifier: Apache-2.0

package tokens

import "maps"

// Diff counts what of s is not in before, by name, what of before is not in s, and
// what is in both and is another token now or may do something else. before may be
// nil: no tokens.
func (s *Set) Diff(before *Set) (added, removed, changed int) {
	was := map[string]int{}
	if before != nil {
		for i, t := range before.tokens {
			was[t.Name] = i
		}
	}
	for i, t := range s.tokens {
		at, ok := was[t.Name]
		switch {
		case !ok:
			added++
		case s.hashes[i] != before.hashes[at] || !t.same(before.tokens[at]):
			changed++
		}
		delete(was, t.Name)
	}
	return added, len(was), changed
}

// same tells whether two tokens may do the same.
func (t *Token) same(o *Token) bool {
	return t.Everything == o.Everything && t.Admin == o.Admin && maps.Equal(t.Namespaces, o.Namespaces)
}
