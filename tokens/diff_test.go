// SPDX-License-Identifier: Apache-2.0

package tokens

import "testing"

func TestDiff(t *testing.T) {
	parse := func(text string) *Set {
		t.Helper()
		s, err := Parse("tokens", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	const a, b = "- {name: a, token: the-token-of-a-1, namespaces: [x]}\n", "- {name: b, token: the-token-of-b-1, namespaces: ['*']}\n"
	before := parse(a + b)
	for name, tt := range map[string]struct {
		now    *Set
		before *Set
		want   [3]int
	}{
		"same, in another order": {parse(b + a), before, [3]int{}},
		"one more":               {parse(a + b + "- {name: c, token: the-token-of-c-1, namespaces: [x]}\n"), before, [3]int{1, 0, 0}},
		"one less":               {parse(a), before, [3]int{0, 1, 0}},
		"renamed":                {parse(a + "- {name: c, token: the-token-of-b-1, namespaces: ['*']}\n"), before, [3]int{1, 1, 0}},
		"another token":          {parse(b + "- {name: a, token: the-token-of-a-2, namespaces: [x]}\n"), before, [3]int{0, 0, 1}},
		"another namespace":      {parse(b + "- {name: a, token: the-token-of-a-1, namespaces: [y]}\n"), before, [3]int{0, 0, 1}},
		"an administrator now":   {parse(b + "- {name: a, token: the-token-of-a-1, namespaces: [x], admin: true}\n"), before, [3]int{0, 0, 1}},
		"none before":            {before, nil, [3]int{2, 0, 0}},
	} {
		var got [3]int
		if got[0], got[1], got[2] = tt.now.Diff(tt.before); got != tt.want {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}
