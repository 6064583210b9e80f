// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/rawblockd/rawblockd/api"
)

// things calls add for everything of the document that an operation names:
// "operation 503", "operation on admin", "operation takes text/plain",
// "operation parameter force", "operation 200 gives text/plain",
// "operation 200 header Rawblockd-Lease", "Schema.field" and "Schema.field=word".
func (d *Document) things(op Operation, add func(string)) {
	for _, l := range op.Listeners {
		add(op.ID + " on " + l)
	}
	for _, p := range op.op.Parameters {
		add(op.ID + " parameter " + p.Value.Name)
	}
	if b := op.op.RequestBody; b != nil {
		for media, m := range b.Value.Content {
			add(op.ID + " takes " + media)
			d.describeMedia(op.ID, m, add)
		}
	}
	for status, ref := range op.op.Responses.Map() {
		add(op.ID + " " + status)
		for name, h := range ref.Value.Headers {
			if !h.Value.Required { // without the others no exchange is right
				add(op.ID + " " + status + " header " + name)
			}
		}
		for media, m := range ref.Value.Content {
			if media != api.MediaProblem {
				add(op.ID + " " + status + " gives " + media)
			}
			d.describeMedia(answerName(op, status, ref), m, add)
		}
	}
}

// answerName is what the schema of an answer is called where it has no name.
func answerName(op Operation, status string, ref *openapi3.ResponseRef) string {
	if ref.Ref != "" {
		return last(ref.Ref)
	}
	return op.ID + " " + status
}

// last is the name at the end of a reference.
func last(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

func (d *Document) describeMedia(name string, m *openapi3.MediaType, add func(string)) {
	if ref := d.lines(m); ref != nil {
		fields("", ref, map[string]bool{}, add)
	}
	fields(name, m.Schema, map[string]bool{}, add)
}

// lines is the schema of the lines of a body, or nil.
func (d *Document) lines(m *openapi3.MediaType) *openapi3.SchemaRef {
	ref, ok := m.Extensions["x-lines"].(string)
	if !ok {
		return nil
	}
	return &openapi3.SchemaRef{Ref: ref, Value: d.schema(ref)}
}

// fields calls add for every field and word below a schema. above are the named
// schemas that it stands in.
func fields(name string, ref *openapi3.SchemaRef, above map[string]bool, add func(string)) {
	if ref == nil {
		return
	}
	if ref.Ref != "" {
		if name = last(ref.Ref); above[name] {
			return
		}
		above[name] = true
		defer delete(above, name)
	}
	s := ref.Value
	for _, word := range enum(s) {
		add(name + "=" + word)
	}
	for _, part := range s.AllOf {
		if part.Ref == "" { // a named part stands for itself
			fields(name, part, above, add)
		} else {
			fields("", part, above, add)
		}
	}
	for field, sub := range s.Properties {
		add(name + "." + field)
		fields(name+"."+field, sub, above, add)
	}
	if s.Items != nil {
		fields(name+"[]", s.Items, above, add)
	}
}

// shown calls add for what a value shows of what fields tells of its schema.
func shown(name string, ref *openapi3.SchemaRef, value any, add func(string)) {
	if ref == nil {
		return
	}
	if ref.Ref != "" {
		name = last(ref.Ref)
	}
	for _, part := range ref.Value.AllOf {
		shown(name, part, value, add)
	}
	switch v := value.(type) {
	case string:
		if slices.Contains(enum(ref.Value), v) {
			add(name + "=" + v)
		}
	case []any:
		for _, sub := range v {
			shown(name+"[]", ref.Value.Items, sub, add)
		}
	case map[string]any:
		for field, sub := range v {
			if s := ref.Value.Properties[field]; s != nil {
				add(name + "." + field)
				shown(name+"."+field, s, sub, add)
			}
		}
	}
}

// exchanged calls add for what an exchange showed of its operation.
func (d *Document) exchanged(e Exchange, op Operation, add func(string)) {
	status := strconv.Itoa(e.Status)
	add(op.ID + " " + status)
	if e.Status != http.StatusUnauthorized && e.Status != http.StatusForbidden {
		add(op.ID + " on " + e.Listener)
	}
	if ref := op.op.Responses.Value(status); ref != nil {
		for name := range e.Answer {
			add(op.ID + " " + status + " header " + nameOf(ref.Value.Headers, name))
		}
		media := mediaType(e.Answer)
		add(op.ID + " " + status + " gives " + media)
		if m := ref.Value.Content.Get(media); m != nil {
			d.showBody(answerName(op, status, ref), m, e.Content, add)
		}
	}
	if e.Status >= http.StatusBadRequest && e.Status < http.StatusInternalServerError {
		return // what it was asked shows nothing of what may be asked
	}
	if values, err := parameters(e, &op); err == nil {
		for name := range values {
			add(op.ID + " parameter " + name)
		}
	}
	for name := range e.Header {
		add(op.ID + " parameter " + name)
	}
	if op.op.RequestBody == nil {
		return
	}
	media := mediaType(e.Header)
	add(op.ID + " takes " + media)
	if m := op.op.RequestBody.Value.Content.Get(media); m != nil {
		d.showBody(op.ID, m, e.Body, add)
	}
}

// refused calls add for what the answer to a request that reached no operation showed.
func (d *Document) refused(e Exchange, add func(string)) {
	status := strconv.Itoa(e.Status)
	add("refusal " + status)
	if r := d.refusals[status]; r != nil {
		for _, m := range r.Value.Content {
			d.showBody(r.Ref, m, e.Content, add)
		}
	}
}

// nameOf is a header's name as the document writes it.
func nameOf(headers openapi3.Headers, name string) string {
	for h := range headers {
		if strings.EqualFold(h, name) {
			return h
		}
	}
	return name
}

// showBody is shown for a whole body, and for each of its lines where it has lines.
func (d *Document) showBody(name string, m *openapi3.MediaType, body []byte, add func(string)) {
	if ref := d.lines(m); ref != nil {
		_ = eachLine(body, strings.HasSuffix(ref.Ref, "Frame"), false, func(_ int, line map[string]any) error {
			shown("", ref, line, add)
			return nil
		}) // what is malformed is Check's to say
		return
	}
	var v any
	if json.NewDecoder(bytes.NewReader(body)).Decode(&v) != nil {
		v = string(body)
	}
	shown(name, m.Schema, v, add)
}

// all returns everything that the document has, sorted.
func (d *Document) all() []string {
	set := map[string]bool{}
	add := func(what string) { set[what] = true }
	for _, op := range d.Operations() {
		d.things(op, add)
	}
	for status, r := range d.refusals {
		add("refusal " + status)
		for _, m := range r.Value.Content {
			d.describeMedia(r.Ref, m, add)
		}
	}
	for _, word := range d.Enum("Status") {
		add("word " + word)
	}
	return slices.Sorted(maps.Keys(set))
}
