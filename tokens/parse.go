// SPDX-License-Identifier: Apache-2.0

package tokens

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// known are the keys of an element, in the order in which faults are named.
var known = []string{"name", "token", "sha256", "namespaces", "admin"}

// Parse reads the text of a file; file is its name for errors.
func Parse(file string, text []byte) (*Set, error) {
	p := &parser{set: newSet(), names: map[string]int{}, hashes: map[[sha256.Size]byte]int{}}
	p.document(text)
	if len(p.faults) > 0 {
		return nil, &Error{File: file, Faults: p.faults}
	}
	return p.set, nil
}

type parser struct {
	set    *Set
	names  map[string]int // name → element
	hashes map[[sha256.Size]byte]int
	faults []Fault
}

func (p *parser) fault(n *yaml.Node, path, msg string, args ...any) {
	f := Fault{Path: path, Msg: fmt.Sprintf(msg, args...)}
	if n != nil {
		f.Line = n.Line
	}
	p.faults = append(p.faults, f)
}

func (p *parser) document(text []byte) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	err := dec.Decode(&doc)
	if err == nil {
		if err = dec.Decode(&more); err == nil {
			p.fault(&more, "", "a second YAML document: want one")
			return
		}
	}
	switch {
	case !errors.Is(err, io.EOF):
		p.faults = append(p.faults, Fault{Line: lineOf(err), Msg: "is no well-formed YAML: put tokens in quotes"})
		return
	case len(doc.Content) == 0:
		p.fault(nil, "", "holds no token, so nobody could get in")
		return
	}
	list := doc.Content[0]
	if list.Kind != yaml.SequenceNode {
		p.fault(list, "", "want a list: - {name: …, token: …, namespaces: […]}")
		return
	}
	if len(list.Content) == 0 {
		p.fault(list, "", "holds no token, so nobody could get in")
	}
	for i, n := range list.Content {
		p.element(n, i)
	}
}

// lineOf returns the line that an error of the YAML reader names. The rest of
// its text may repeat what the file says.
func lineOf(err error) int {
	m := regexp.MustCompile(`line (\d+)`).FindStringSubmatch(err.Error())
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1]) // digits
	return n
}

// element reads one token.
func (p *parser) element(n *yaml.Node, i int) {
	path := fmt.Sprintf("[%d]", i)
	if n.Kind != yaml.MappingNode {
		p.fault(n, path, "want a section with the keys name, token or sha256, namespaces, admin")
		return
	}
	keys, before := map[string]*yaml.Node{}, len(p.faults)
	for j := 0; j+1 < len(n.Content); j += 2 {
		switch key := n.Content[j]; {
		case key.Kind != yaml.ScalarNode || !slices.Contains(known, key.Value):
			p.fault(key, path, "an unknown key: want name, token or sha256, namespaces, admin")
		case keys[key.Value] != nil:
			p.fault(key, path+"."+key.Value, "is here twice: remove one")
		default:
			keys[key.Value] = n.Content[j+1]
		}
	}
	t := &Token{}
	t.Name = p.name(n, keys["name"], path+".name", i)
	hash := p.hash(n, keys, path, i)
	t.Admin = p.admin(keys["admin"], path+".admin")
	t.Everything, t.Namespaces = p.namespaces(keys["namespaces"], path+".namespaces")
	if keys["namespaces"] == nil && !t.Admin && len(p.faults) == before {
		p.fault(n, path+".namespaces", `is missing, so the token would give no right: list namespaces, or write ["*"] for all`)
	}
	p.set.tokens, p.set.hashes = append(p.set.tokens, t), append(p.set.hashes, hash)
}

// text returns a scalar as it was written.
func (p *parser) text(n *yaml.Node, path string) (string, bool) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		p.fault(n, path, "want a single value")
		return "", false
	}
	return n.Value, true
}

var goodName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

const nameRule = "want 1 to 63 letters, digits, dots, underscores and dashes, a letter or digit first"

func (p *parser) name(at, n *yaml.Node, path string, i int) string {
	if n == nil {
		p.fault(at, path, "is missing: %s", nameRule)
		return ""
	}
	s, ok := p.text(n, path)
	if !ok {
		return ""
	}
	if !goodName.MatchString(s) {
		p.fault(n, path, "is no name: %s", nameRule)
		return ""
	}
	if first, dup := p.names[s]; dup {
		p.fault(n, path, "%q is also the name of [%d]: names must be unique", s, first)
	} else {
		p.names[s] = i
	}
	return s
}

// hash reads token or sha256, of which there must be one.
func (p *parser) hash(at *yaml.Node, keys map[string]*yaml.Node, path string, i int) (sum [sha256.Size]byte) {
	plain, hashed := keys["token"], keys["sha256"]
	n, key := plain, ".token"
	switch {
	case plain == nil && hashed == nil:
		p.fault(at, path+".token", "is missing: want it, or sha256 in its place")
		return sum
	case plain != nil && hashed != nil:
		p.fault(hashed, path+".sha256", "is there beside token: remove one")
		return sum
	case plain == nil:
		n, key = hashed, ".sha256"
	}
	s, ok := p.text(n, path+key)
	if !ok {
		return sum
	}
	if why := read256(s, plain != nil, &sum); why != "" {
		p.fault(n, path+key, "%s", why)
		return sum
	}
	if first, dup := p.hashes[sum]; dup {
		p.fault(n, path+key, "is the same token as that of [%d]: every user needs one of its own", first)
	} else {
		p.hashes[sum] = i
	}
	return sum
}

// read256 reads the hash of a token, or of one that is plain, and returns what
// is wrong.
func read256(s string, plain bool, sum *[sha256.Size]byte) string {
	if !plain {
		b, err := hex.DecodeString(s)
		if err != nil || len(b) != sha256.Size {
			return `is no SHA-256: want 64 hex digits, as printf %s "$TOKEN" | sha256sum prints them`
		}
		copy(sum[:], b)
		return ""
	}
	switch {
	case len(s) < MinBytes:
		return fmt.Sprintf("has %d bytes, which can be guessed: want %d or more, as from openssl rand -hex 32", len(s), MinBytes)
	case len(s) > MaxBytes:
		return fmt.Sprintf("has %d bytes: want at most %d", len(s), MaxBytes)
	case !presentable(s):
		return "has characters that no header carries: want visible ASCII without spaces, as from openssl rand -hex 32"
	}
	*sum = sha256.Sum256([]byte(s))
	return ""
}

// presentable tells whether a header can carry a token.
func presentable(token string) bool {
	for i := range len(token) {
		if token[i] <= ' ' || token[i] > '~' {
			return false
		}
	}
	return true
}

func (p *parser) admin(n *yaml.Node, path string) bool {
	if n == nil {
		return false
	}
	s, ok := p.text(n, path)
	if ok && s != "true" && s != "false" {
		p.fault(n, path, "want true or false")
	}
	return s == "true"
}

func (p *parser) namespaces(n *yaml.Node, path string) (everything bool, names map[string]bool) {
	names = map[string]bool{}
	if n == nil {
		return false, names
	}
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		p.fault(n, path, `want a list of namespaces, or ["*"] for all`)
		return false, names
	}
	for i, e := range n.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		s, ok := p.text(e, at)
		switch {
		case !ok:
		case s == "*" && len(n.Content) == 1:
			return true, names
		case s == "*":
			p.fault(e, at, `"*" stands for all, so nothing can stand beside it`)
		case !goodName.MatchString(s):
			p.fault(e, at, "is no namespace: %s", nameRule)
		case names[s]:
			p.fault(e, at, "%q is listed twice", s)
		default:
			names[s] = true
		}
	}
	return false, names
}
