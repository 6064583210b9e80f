// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"github.com/rawblockd/rawblockd/api"
)

// checkRequest judges a request by what became of it.
func (d *Document) checkRequest(e Exchange, op *Operation) error {
	err := d.described(e, op)
	switch {
	case err != nil && done(e.Status):
		return fmt.Errorf("the request was answered, and the document does not allow it: %w", err)
	case err == nil && e.Whole && refusedByForm(e.problem()):
		return errors.New("the request was refused for its form, and the document allows it")
	}
	return nil
}

// done tells whether an answer means that the request was understood whole.
func done(status int) bool {
	switch status {
	case http.StatusNotModified, http.StatusConflict, http.StatusLocked, http.StatusInsufficientStorage:
		return true
	}
	return status < 300
}

// beyond are parts of the details of refusals that no document can foresee.
func beyond() []string {
	return []string{"given ", "stands twice", "UTF-8", "take it from the last page", "no slab", "raw control character", "is no key", "escape", "not Unicode", "is not the namespace", "is no name", "is not a slab", "less than one slot", "has no slot"}
}

// refusedByForm tells whether a problem is about what a document can say.
func refusedByForm(p api.Problem) bool {
	switch p.Code {
	case api.CodeUnknownField, api.CodeMissingField:
		return true
	case api.CodeMalformedJSON, api.CodeInvalidField:
		for _, part := range beyond() {
			if strings.Contains(p.Detail, part) {
				return false
			}
		}
		return p.Field != "query" && p.Field != "Content-Length"
	}
	return false
}

// described returns why the document does not allow a request, or nil.
func (d *Document) described(e Exchange, op *Operation) error {
	if op.op.Extensions["x-ignores"] != nil {
		return nil
	}
	values, err := parameters(e, op)
	if err != nil {
		return err
	}
	if e.Method == http.MethodGet || e.Method == http.MethodHead {
		e.Body = nil // which is ignored
	}
	h := e.Header.Clone()
	if h == nil {
		h = http.Header{}
	}
	if h.Get("Content-Type") == "" && len(e.Body) > 0 {
		h.Set("Content-Type", api.MediaOctets) // RFC 9110, 8.3: what a receiver may take it for
	}
	in := &openapi3filter.RequestValidationInput{
		Request:    &http.Request{Method: e.Method, URL: &url.URL{Path: "/", RawQuery: values.Encode()}, Header: h, Body: http.NoBody},
		PathParams: op.params, QueryParams: values,
		Route: &routers.Route{Spec: d.doc, Path: op.Path, PathItem: op.item, Method: op.Method, Operation: op.op},
		Options: &openapi3filter.Options{
			AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, SkipSettingDefaults: true,
			RejectWhenRequestBodyNotSpecified: true, ExcludeRequestBody: !e.Whole || emptyText(e),
		},
	}
	if len(e.Body) > 0 {
		in.Request.Body, in.Request.ContentLength = bodyOf(e.Body), int64(len(e.Body))
	}
	if err := openapi3filter.ValidateRequest(context.Background(), in); err != nil {
		return err
	}
	if op.op.RequestBody == nil || !e.Whole {
		return nil
	}
	media := op.op.RequestBody.Value.Content.Get(h.Get("Content-Type"))
	if media == nil {
		return fmt.Errorf("the document does not have the media type %q", h.Get("Content-Type"))
	}
	return d.checkLines(media, e.Body, true)
}

// emptyText tells whether a request's body is there and empty, as that of no keys
// and of no frames is. To kin-openapi it is missing.
func emptyText(e Exchange) bool {
	kind := mediaType(e.Header)
	return len(e.Body) == 0 && (kind == api.MediaText || kind == api.MediaFrames)
}

func mediaType(h http.Header) string {
	kind, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return kind
}

// parameters returns those of a request's query, without the empty ones, which
// are as good as none. kin-openapi does not mind those that are not described,
// and does not know x-with.
func parameters(e Exchange, op *Operation) (url.Values, error) {
	_, query := e.path()
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, err
	}
	for _, ref := range op.op.Parameters {
		p := ref.Value
		if with := p.Extensions["x-with"]; p.Extensions["x-required-with"] == true && with == mediaType(e.Header) && values.Get(p.Name) == "" {
			return nil, fmt.Errorf("the parameter %q is missing", p.Name)
		}
	}
	for name, v := range values {
		p := op.op.Parameters.GetByInAndName("query", name)
		switch {
		case p == nil:
			return nil, fmt.Errorf("the document does not have the parameter %q", name)
		case p.Extensions["x-with"] != nil && p.Extensions["x-with"] != mediaType(e.Header):
			return nil, fmt.Errorf("the document has the parameter %q with another media type", name)
		case len(v) > 1:
			return nil, fmt.Errorf("the parameter %q is given %d times", name, len(v))
		case v[0] == "":
			delete(values, name)
		}
	}
	return values, nil
}
