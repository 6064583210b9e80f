// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
)

// Coverage remembers what of a document was seen in exchanges: every operation on
// every listener that it is served on, each of its statuses, parameters, headers
// and media types, and each field and word of the bodies.
type Coverage struct {
	doc *Document

	mu sync.Mutex
	// +checklocks:mu
	seen map[string]bool
}

// NewCoverage returns a Coverage of what was not seen yet.
func NewCoverage(d *Document) *Coverage { return &Coverage{doc: d, seen: map[string]bool{}} }

// Note remembers an exchange.
func (c *Coverage) Note(e Exchange) {
	var all []string
	add := func(what string) {
		all = append(all, what)
		if name, word, ok := strings.Cut(what, "="); ok && strings.HasSuffix(name, ".status") {
			all = append(all, "word "+word)
		}
	}
	if op, _ := c.doc.reached(e); op != nil {
		c.doc.exchanged(e, *op, add)
	} else {
		c.doc.refused(e, add)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, what := range all {
		c.seen[what] = true
	}
}

// Missing returns what the document has and no exchange showed, sorted, in the
// words of Document.things, with "refusal 431" and "word busy" beside them.
func (c *Coverage) Missing() []string {
	all := c.doc.all()
	c.mu.Lock()
	defer c.mu.Unlock()
	var missing []string
	for _, t := range all {
		if !c.seen[t] {
			missing = append(missing, t)
		}
	}
	return missing
}

func enum(s *openapi3.Schema) []string {
	var out []string
	for _, v := range s.Enum {
		if text, ok := v.(string); ok {
			out = append(out, text)
		}
	}
	return out
}
