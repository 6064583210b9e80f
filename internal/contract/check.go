// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"github.com/rawblockd/rawblockd/api"
)

// Check returns what in an exchange is not as the document says.
func (d *Document) Check(e Exchange) error {
	op, allowed := d.reached(e)
	var err error
	if op == nil {
		err = d.checkRefusal(e, allowed)
	} else {
		err = errors.Join(d.checkAnswer(e, op.op.Responses.Value(strconv.Itoa(e.Status))), d.checkRequest(e, op))
	}
	if err != nil {
		return fmt.Errorf("%s %.200s on %s answered %d %.300q: %w", e.Method, e.Target, e.Listener, e.Status, e.Content, err)
	}
	return nil
}

// reached returns the operation that answered, or nil if none did, and the
// methods that the request's path takes.
func (d *Document) reached(e Exchange) (op *Operation, allowed []string) {
	path, _ := e.path()
	code := e.Code()
	// The header of a request can be beyond reading though its first line is not.
	if e.Method == "" || code == api.CodeMalformedRequest || code == api.CodeUncleanPath || api.CheckPath(path) != nil && path != "/debug/pprof/" {
		return nil, nil
	}
	return d.find(e.Listener, e.Method, path)
}

// checkRefusal judges the answer to what reached no operation.
func (d *Document) checkRefusal(e Exchange, allowed []string) error {
	r := d.refusals[strconv.Itoa(e.Status)]
	if r == nil {
		return errors.New("no operation of the document, and no refusal either")
	}
	err := d.checkAnswer(e, r)
	if allow := e.Answer.Get("Allow"); e.Status == http.StatusMethodNotAllowed && allow != strings.Join(allowed, ", ") {
		err = errors.Join(err, fmt.Errorf("the header Allow is %q and the document has %v", allow, allowed))
	}
	if e.Status == http.StatusNotFound && len(allowed) > 0 && e.Listener != "lease" { // there other methods are not found, as other paths are
		err = errors.Join(err, fmt.Errorf("not found, and the document has %v there", allowed))
	}
	return err
}

// framing are headers of the transfer, which are not described one by one.
func framing() []string {
	return []string{"Connection", "Content-Length", "Content-Type", "Date", "Transfer-Encoding"}
}

// checkAnswer judges an answer by its description.
func (d *Document) checkAnswer(e Exchange, ref *openapi3.ResponseRef) error {
	if ref == nil {
		return errors.New("the document does not have this status here")
	}
	r := ref.Value
	var faults []error
	for name := range e.Answer {
		if !slices.Contains(framing(), name) && !has(r.Headers, name) {
			faults = append(faults, fmt.Errorf("the document does not have the header %s here", name))
		}
	}
	if n := e.Answer.Get("Content-Length"); e.Complete && e.Method != http.MethodHead && n != "" && n != strconv.Itoa(len(e.Content)) {
		faults = append(faults, fmt.Errorf("%d bytes of body, Content-Length %s", len(e.Content), n))
	}
	switch {
	case e.Method == http.MethodHead, e.Status == http.StatusNotModified:
		r = &openapi3.Response{Description: r.Description, Headers: r.Headers}
		fallthrough
	case len(r.Content) == 0:
		if len(e.Content) > 0 {
			faults = append(faults, errors.New("a body where there can be none"))
		}
	}
	faults = append(faults, d.checkShape(e, r))
	if media := r.Content.Get(e.Answer.Get("Content-Type")); media != nil {
		faults = append(faults, d.checkLines(media, e.Content, e.Complete))
	}
	return errors.Join(faults...)
}

func has(headers openapi3.Headers, name string) bool {
	for h := range headers {
		if strings.EqualFold(h, name) {
			return true
		}
	}
	return false
}

// checkShape leaves headers and body to kin-openapi. It does not look at the
// answers to HEAD, and not at those with 304, so they are shown to it as others.
func (d *Document) checkShape(e Exchange, r *openapi3.Response) error {
	shown := &openapi3.Operation{Responses: openapi3.NewResponses(openapi3.WithStatus(http.StatusOK, &openapi3.ResponseRef{Value: r}))}
	in := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{
			Request: &http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/"}},
			Route:   &routers.Route{Spec: d.doc, Operation: shown},
		},
		Status: http.StatusOK, Header: e.Answer,
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true, ExcludeResponseBody: !e.Complete},
	}
	in.SetBodyBytes(e.Content)
	return openapi3filter.ValidateResponse(context.Background(), in)
}
