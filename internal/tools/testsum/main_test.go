// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestSummarize(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		want     summary
		shows    string
		hides    string
	}{
		{
			name: "pass, skip and fail",
			in: `{"Action":"output","Package":"p","Test":"A","Output":"quiet\n"}
{"Action":"pass","Package":"p","Test":"A"}
{"Action":"skip","Package":"p","Test":"B"}
{"Action":"output","Package":"p","Test":"C","Output":"loud\n"}
{"Action":"fail","Package":"p","Test":"C"}
{"Action":"fail","Package":"p","Elapsed":1}
`,
			want: summary{passed: 1, failed: 1, skipped: 1}, shows: "loud", hides: "quiet",
		},
		{
			name: "a package that does not build",
			in: `{"Action":"build-output","ImportPath":"p","Output":"syntax error\n"}
{"Action":"build-fail","ImportPath":"p"}
{"Action":"fail","Package":"p"}
`,
			want: summary{failed: 1}, shows: "syntax error",
		},
		{
			name: "a package that panics outside any test",
			in: `{"Action":"output","Package":"p","Output":"panic: boom\n"}
{"Action":"fail","Package":"p"}
`,
			want: summary{failed: 1}, shows: "boom",
		},
		{
			name: "a campaign's closing line",
			in: `{"Action":"output","Package":"p","Test":"A","Output":"crash: points=3 wrong=0\n"}
{"Action":"pass","Package":"p","Test":"A"}
`,
			want: summary{passed: 1}, shows: "points=3",
		},
		{name: "a word of the go command", in: "go: no such module\n", shows: "no such module"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out strings.Builder
			if got := summarize(strings.NewReader(tc.in), &out); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
			if !strings.Contains(out.String(), tc.shows) {
				t.Errorf("output lacks %q:\n%s", tc.shows, out.String())
			}
			if tc.hides != "" && strings.Contains(out.String(), tc.hides) {
				t.Errorf("output shows %q of a passing test:\n%s", tc.hides, out.String())
			}
		})
	}
}

func TestSplit(t *testing.T) {
	got := split([]string{"-race", "./a", "--", "./b"})
	if len(got) != 2 || len(got[0]) != 2 || got[1][0] != "./b" {
		t.Errorf("got %v, want two passes", got)
	}
}
