// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/rawblockd/rawblockd/api"
)

// Document is the OpenAPI document of package api, ready to judge by.
type Document struct {
	doc *openapi3.T
	// By status: the answers to what reaches no operation.
	refusals map[string]*openapi3.ResponseRef
}

var load = sync.OnceValues(func() (*Document, error) { return Parse(api.OpenAPI()) })

// Load returns the document of package api. It is read once.
func Load() (*Document, error) { return load() }

// Parse reads and validates a document, with its examples.
func Parse(text []byte) (*Document, error) {
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, fmt.Errorf("read the document: %w", err)
	}
	if err := doc.Validate(context.Background(), openapi3.EnableExamplesValidation(), openapi3.EnableMultiError()); err != nil {
		return nil, fmt.Errorf("validate the document: %w", err)
	}
	d := &Document{doc: doc, refusals: map[string]*openapi3.ResponseRef{}}
	refs, _ := doc.Extensions["x-refusals"].(map[string]any)
	for status, ref := range refs {
		name := strings.TrimPrefix(fmt.Sprint(ref.(map[string]any)["$ref"]), "#/components/responses/")
		r := doc.Components.Responses[name]
		if r == nil {
			return nil, fmt.Errorf("x-refusals %s: no response %q", status, name)
		}
		d.refusals[status] = &openapi3.ResponseRef{Ref: name, Value: r.Value}
	}
	return d, nil
}

// Operation is one operation of the document.
type Operation struct {
	ID        string
	Method    string
	Path      string   // with its parameters in braces
	Listeners []string // where it is served
	Statuses  []string // the answers that are described

	op     *openapi3.Operation
	item   *openapi3.PathItem
	params map[string]string // what a request's path says
}

// Operations returns all operations, by path and method.
func (d *Document) Operations() []Operation {
	var out []Operation
	for _, path := range slices.Sorted(maps.Keys(d.doc.Paths.Map())) {
		item := d.doc.Paths.Value(path)
		for _, method := range slices.Sorted(maps.Keys(item.Operations())) {
			out = append(out, describe(method, path, item, nil))
		}
	}
	return out
}

// Refusals returns the statuses of answers to what reaches no operation.
func (d *Document) Refusals() []string { return slices.Sorted(maps.Keys(d.refusals)) }

func describe(method, path string, item *openapi3.PathItem, params map[string]string) Operation {
	op := item.Operations()[method]
	return Operation{
		ID: op.OperationID, Method: method, Path: path, Listeners: texts(op.Extensions["x-listeners"]),
		Statuses: slices.Sorted(maps.Keys(op.Responses.Map())), op: op, item: item, params: params,
	}
}

// texts is a list of an extension.
func texts(list any) []string {
	var out []string
	items, _ := list.([]any)
	for _, v := range items {
		out = append(out, fmt.Sprint(v))
	}
	return out
}

// find returns the operation that a request reaches on a listener, or nil, and
// the methods that its path takes there. path is escaped, as it was sent. Of two
// paths that match, the one with fewer parameters is meant.
func (d *Document) find(listener, method, path string) (op *Operation, allowed []string) {
	least := -1
	for pattern, item := range d.doc.Paths.Map() {
		params, ok := match(pattern, path)
		if !ok {
			params, ok = nil, slices.Contains(texts(item.Extensions["x-aliases"]), path)
		}
		if !ok {
			continue
		}
		for m := range item.Operations() {
			o := describe(m, pattern, item, params)
			if listener != "" && !slices.Contains(o.Listeners, listener) {
				continue
			}
			if !slices.Contains(allowed, m) {
				allowed = append(allowed, m)
			}
			if m == method && (least < 0 || len(params) < least) {
				op, least = &o, len(params)
			}
		}
	}
	slices.Sort(allowed)
	return op, allowed
}

// match compares an escaped path with a pattern, segment by segment.
func match(pattern, path string) (map[string]string, bool) {
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return nil, false
	}
	params := map[string]string{}
	for i, w := range want {
		seg, err := url.PathUnescape(got[i])
		if err != nil {
			return nil, false
		}
		if name, ok := strings.CutPrefix(w, "{"); ok {
			params[strings.TrimSuffix(name, "}")] = seg
		} else if w != seg {
			return nil, false
		}
	}
	return params, true
}

// schema returns the schema that a reference of an extension names.
func (d *Document) schema(ref string) *openapi3.Schema {
	s := d.doc.Components.Schemas[strings.TrimPrefix(ref, "#/components/schemas/")]
	if s == nil {
		return nil
	}
	return s.Value
}

// Enum returns the words that a schema of the document allows.
func (d *Document) Enum(schema string) []string {
	if s := d.schema(schema); s != nil {
		return enum(s)
	}
	return nil
}
