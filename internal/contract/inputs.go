// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"maps"
	"slices"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/rawblockd/rawblockd/api"
)

// Inputs returns the names of all parameters of queries, and of all fields of JSON
// bodies of requests at their top, sorted.
func (d *Document) Inputs() (parameters, fields []string) {
	params, names := map[string]bool{}, map[string]bool{}
	for _, op := range d.Operations() {
		for _, p := range op.op.Parameters {
			if p.Value.In == openapi3.ParameterInQuery {
				params[p.Value.Name] = true
			}
		}
		for name := range op.body() {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(params)), slices.Sorted(maps.Keys(names))
}

// Ignores tells whether the operation ignores parameters.
func (o *Operation) Ignores() bool { return o.op.Extensions["x-ignores"] != nil }

// Takes tells whether a request with a body of a media type may have a parameter
// in its query.
func (o *Operation) Takes(parameter, media string) bool {
	p := o.op.Parameters.GetByInAndName(openapi3.ParameterInQuery, parameter)
	return p != nil && (p.Extensions["x-with"] == nil || p.Extensions["x-with"] == media)
}

// HasField tells whether the operation's JSON body may have a field.
func (o *Operation) HasField(name string) bool { return o.body()[name] != nil }

// body is the fields of the operation's JSON body.
func (o *Operation) body() openapi3.Schemas {
	if o.op.RequestBody == nil {
		return nil
	}
	m := o.op.RequestBody.Value.Content[api.MediaJSON]
	if m == nil {
		return nil
	}
	return m.Schema.Value.Properties
}
