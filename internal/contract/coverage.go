// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
)

// Coverage remembers what of a document was seen in exchanges: which operation
// gave which status, which problem codes there were, and with which words single
// keys were answered by which operation.
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
	status := strconv.Itoa(e.Status)
	things := []string{"code " + e.Code(), "refusal " + status}
	if op, _ := c.doc.reached(e); op != nil {
		things[1] = op.ID + " " + status
		for _, w := range words(e) {
			things = append(things, op.ID+" word "+w, "word "+w)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range things {
		c.seen[t] = true
	}
}

// words are what the keys of a batch were answered with.
func words(e Exchange) []string {
	var out []string
	add := func(_ int, line map[string]any) error {
		if s, ok := line["status"].(string); ok {
			out = append(out, s)
		}
		return nil
	}
	if strings.HasSuffix(e.Answer.Get("Content-Type"), ".frames") {
		_ = eachLine(e.Content, true, false, add) // what is malformed is Check's to say
		return out
	}
	var answer struct{ Results []map[string]any }
	_ = json.Unmarshal(e.Content, &answer) // no batch's answer has no results
	for i, r := range answer.Results {
		_ = add(i, r)
	}
	return out
}

// Missing returns what the document has and no exchange showed, sorted:
// "operation 503", "refusal 431", "code forbidden", "word busy" and
// "operation word busy".
func (c *Coverage) Missing() []string {
	var all []string
	for _, op := range c.doc.Operations() {
		for _, s := range op.Statuses {
			all = append(all, op.ID+" "+s)
		}
		for _, w := range c.doc.words(op) {
			all = append(all, op.ID+" word "+w)
		}
	}
	for _, s := range c.doc.Refusals() {
		all = append(all, "refusal "+s)
	}
	for _, code := range c.doc.Enum("ProblemCode") {
		all = append(all, "code "+code)
	}
	for _, w := range c.doc.Enum("Status") {
		all = append(all, "word "+w)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var missing []string
	for _, t := range all {
		if !c.seen[t] {
			missing = append(missing, t)
		}
	}
	slices.Sort(missing)
	return slices.Compact(missing)
}

// words are those that an operation of batches may answer a key with.
func (d *Document) words(op Operation) []string {
	ok := op.op.Responses.Value("200")
	if ok == nil {
		return nil
	}
	var out []string
	for _, media := range ok.Value.Content {
		if media.Schema == nil {
			continue
		}
		line := media.Schema.Value
		if ref, is := media.Extensions["x-lines"].(string); is {
			line = d.schema(ref)
		} else if results := line.Properties["results"]; results != nil && results.Value.Items != nil {
			line = results.Value.Items.Value
		} else {
			continue
		}
		if status := line.Properties["status"]; status != nil {
			out = append(out, enum(status.Value)...)
		}
	}
	return out
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
