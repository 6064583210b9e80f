// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// Source says where a setting has its value from. The zero value is the default.
type Source struct {
	File string // as it was given to Load
	Line int    // in File; 0: not from a file
	Env  string // the variable, without $; it wins over the file
}

// String returns "default", "file:line" or "$VARIABLE".
func (s Source) String() string {
	switch {
	case s.Env != "":
		return "$" + s.Env
	case s.Line > 0 && strings.IndexFunc(s.File, unicode.IsControl) >= 0:
		return strconv.Quote(s.File) + ":" + strconv.Itoa(s.Line)
	case s.Line > 0:
		return s.File + ":" + strconv.Itoa(s.Line)
	}
	return "default"
}

// Sources are those of a whole configuration by YAML path, as in
// slabs[0].io_size. What is not in it is a default.
type Sources map[string]Source

// set records where a value was given.
func (w *walker) set(path string, line int) {
	if w.env != "" {
		w.given[path] = Source{Env: w.env}
		return
	}
	w.given[path] = Source{File: w.file, Line: line}
}

// forget drops what the file gave for a key that a variable gives anew.
func (w *walker) forget(path string) {
	for p := range w.given {
		if p == path || strings.HasPrefix(p, path+"[") || strings.HasPrefix(p, path+".") {
			delete(w.given, p)
		}
	}
}

// YAML returns the configuration in the form that Load reads.
func (c *Config) YAML() ([]byte, error) {
	n, err := c.node()
	if err != nil {
		return nil, err
	}
	return encode(n)
}

// Annotated is YAML with a comment behind each value that says where it comes
// from.
func (c *Config) Annotated(from Sources) ([]byte, error) {
	n, err := c.node()
	if err != nil {
		return nil, err
	}
	annotate(n, "", from)
	return encode(n)
}

// JSON returns the configuration as one indented JSON object, which Load reads,
// too: sizes, modes and durations are text as in YAML.
func (c *Config) JSON() ([]byte, error) {
	n, err := c.node()
	if err != nil {
		return nil, err
	}
	var b, out bytes.Buffer
	if err := writeJSON(&b, n); err != nil {
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	if err := json.Indent(&out, b.Bytes(), "", "  "); err != nil {
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// node returns c as YAML nodes whose strings stay on one line.
func (c *Config) node() (*yaml.Node, error) {
	var n yaml.Node
	if err := n.Encode(c); err != nil {
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	oneLine(&n)
	return &n, nil
}

func oneLine(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, c := range n.Content {
		oneLine(c)
	}
}

func encode(n *yaml.Node) ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(n); err != nil {
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	return b.Bytes(), enc.Close()
}

// annotate puts the source behind every value that takes a line of its own.
func annotate(n *yaml.Node, path string, from Sources) {
	switch {
	case n.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			annotate(n.Content[i+1], joinPath(path, n.Content[i].Value), from)
		}
	case n.Kind == yaml.SequenceNode && len(n.Content) > 0:
		for i, c := range n.Content {
			annotate(c, fmt.Sprintf("%s[%d]", path, i), from)
		}
	default:
		n.LineComment = from[path].String()
	}
}

func writeJSON(b *bytes.Buffer, n *yaml.Node) error {
	list := func(open, end byte, each func(i int) error, step int) error {
		b.WriteByte(open)
		for i := 0; i < len(n.Content); i += step {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := each(i); err != nil {
				return err
			}
		}
		b.WriteByte(end)
		return nil
	}
	switch n.Kind {
	case yaml.MappingNode:
		return list('{', '}', func(i int) error {
			writeString(b, n.Content[i].Value)
			b.WriteByte(':')
			return writeJSON(b, n.Content[i+1])
		}, 2)
	case yaml.SequenceNode:
		return list('[', ']', func(i int) error { return writeJSON(b, n.Content[i]) }, 1)
	}
	if n.Tag == "!!str" {
		writeString(b, n.Value)
		return nil
	}
	var v any
	if err := n.Decode(&v); err != nil {
		return err
	}
	text, err := json.Marshal(v)
	b.Write(text)
	return err
}

// writeString writes a JSON string that is a YAML string as well: YAML takes
// no control characters as they are, and json leaves some so.
func writeString(b *bytes.Buffer, s string) {
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x10000 && !unicode.IsPrint(r):
			fmt.Fprintf(b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
}
