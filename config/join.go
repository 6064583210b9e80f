// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// join returns what could not be read together with the faults of the rest, found,
// but for those that only follow from what could not be read.
func (w *walker) join(found faults) faults {
	unread := slices.Clone(w.meant)
	for _, f := range w.faults {
		if f.Path != "" {
			unread = append(unread, f.Path)
		}
	}
	out := slices.Clone(w.faults)
	for _, f := range found {
		if !slices.ContainsFunc(unread, func(path string) bool { return follows(f, path) }) {
			out = append(out, f)
		}
	}
	return out
}

// slabIdentity is what names of slabs are compared with.
var slabIdentity = regexp.MustCompile(`^slabs(\[\d+\](\.name)?)?$`)

// follows tells whether a fault may be there only because of a path that could not be
// read: it is about that, about what is in it or around it, or names it as what a value
// was compared with.
func follows(f Fault, path string) bool {
	key := path[strings.LastIndexByte(path, '.')+1:]
	switch {
	case f.Path == path, within(f.Path, path), within(path, f.Path):
		return true
	case slabIdentity.MatchString(path):
		return strings.HasPrefix(f.Path, "namespaces[") && strings.Contains(f.Path, ".slabs")
	case path == "namespaces" || strings.HasPrefix(path, "namespaces[") && key == "name":
		return strings.HasPrefix(f.Path, "listen.lease.namespaces")
	}
	return strings.Contains(key, "_") && strings.Contains(f.Msg, key) || strings.Contains(path, ".") && strings.Contains(f.Msg, path)
}

// within tells whether a path lies in the section or list of another.
func within(path, outer string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && rest != "" && (rest[0] == '.' || rest[0] == '[')
}

// syntaxFault is what is wrong with a text that is no YAML, with the line, which the
// reader does not always tell.
func syntaxFault(text []byte, err error) Fault {
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 0
	if _, err := fmt.Sscanf(msg, "line %d: ", &line); err == nil {
		_, msg, _ = strings.Cut(msg, ": ")
	}
	if line == 0 {
		line = 1 + bytes.Count(text[:suspect(text, msg)], []byte{'\n'})
	}
	return Fault{Line: line, Msg: "it is no YAML: " + msg + ": correct it here or a line before; indentation is of blanks, and text with : or # in it takes quotes"}
}

// suspect returns where in text the reader found what msg says; 0, the first line, if
// that cannot be told: of that line it tells no number.
func suspect(text []byte, msg string) int {
	if _, anchor, ok := strings.Cut(msg, "unknown anchor '"); ok {
		anchor, _, _ = strings.Cut(anchor, "'")
		return max(bytes.Index(text, []byte("*"+anchor)), 0)
	}
	for at := 0; at < len(text); {
		r, n := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && n == 1 || unicode.IsControl(r) && !strings.ContainsRune("\t\n\r\u0085", r) {
			return at
		}
		at += n
	}
	return 0
}
