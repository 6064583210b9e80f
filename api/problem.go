// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"net/http"
)

// Problem codes besides the words of Status. A client decides by the code; the
// title and the detail are for people.
const (
	CodeMalformedRequest = "malformed_request"
	CodeMalformedJSON    = "malformed_json"
	CodeMalformedFrame   = "malformed_frame"
	CodeUnknownField     = "unknown_field"
	CodeUnsupportedField = "unsupported_field"
	CodeMissingField     = "missing_field"
	CodeInvalidField     = "invalid_field"
	CodeTooManyKeys      = "too_many_keys"
	CodeBodyTooLarge     = "body_too_large"
	CodeBodyTooShort     = "body_too_short"
	CodeBodyTooSlow      = "body_too_slow"
	CodeLengthRequired   = "length_required"
	CodeUnknownNamespace = "unknown_namespace"
	CodeUnknownLease     = "unknown_lease"
	CodeUncleanPath      = "unclean_path"
	CodeNotFound         = "not_found"
	CodeMethod           = "method_not_allowed"
	CodeMediaType        = "unsupported_media_type"
	CodeContentEncoding  = "unsupported_content_encoding"
	CodeForeignHost      = "foreign_host"
	CodeForeignOrigin    = "foreign_origin"
	CodeForeignAddress   = "foreign_address"
	CodeNotReady         = "not_ready"
	CodeInternal         = "internal"
	CodeUnauthorized     = "unauthorized"
	CodeForbidden        = "forbidden"
	CodeOverloaded       = "overloaded"
	CodeNotEmpty         = "not_empty"
	CodeFromConfig       = "from_config"
	CodeFingerprint      = "fingerprint_mismatch"
	CodeNoSegment        = "no_segment"
	CodeUnknownSlab      = "unknown_slab"
	CodeScrubbing        = "scrubbing"
)

// Problem is RFC 9457's problem+json: a request that failed as a whole.
type Problem struct {
	Type   string `json:"type"`   // always about:blank; Code says more
	Title  string `json:"title"`  // what, the same for every Problem of this code
	Status int    `json:"status"` // the HTTP code
	Code   string `json:"code"`
	Field  string `json:"field,omitempty"`  // the field, parameter or header at fault
	Detail string `json:"detail,omitempty"` // on what, why, and what to do
	// RetryAfter, in seconds, is sent as the Retry-After header when positive.
	RetryAfter int `json:"-"`
	// Close asks the server to end the connection with this answer.
	Close bool `json:"-"`
}

// Error returns one line: what, on what, why.
func (p *Problem) Error() string {
	s := p.Title
	if p.Field != "" {
		s += " (" + p.Field + ")"
	}
	if p.Detail != "" {
		s += ": " + p.Detail
	}
	return s
}

// NewProblem makes a Problem of a code that is no Status.
func NewProblem(status int, code, field, detail string, args ...any) *Problem {
	if len(args) > 0 {
		detail = fmt.Sprintf(detail, args...)
	}
	return &Problem{Type: "about:blank", Title: title(code), Status: status, Code: code, Field: field, Detail: detail}
}

// StatusProblem makes the Problem a single-object request is answered with
// when its key came out with status s.
func StatusProblem(s Status, detail string) *Problem {
	p := &Problem{Type: "about:blank", Title: s.Meaning(), Status: s.HTTP(), Code: string(s), Detail: detail}
	if p.Status == http.StatusServiceUnavailable {
		p.RetryAfter = 1
	}
	return p
}

func title(code string) string {
	switch code {
	case CodeMalformedRequest:
		return "the request's header cannot be read"
	case CodeMalformedJSON:
		return "the body is not the JSON object this route takes"
	case CodeMalformedFrame:
		return "the body is not well-formed frames"
	case CodeUnknownField:
		return "unknown field"
	case CodeUnsupportedField:
		return "this server does not offer the field"
	case CodeMissingField:
		return "a field is missing"
	case CodeInvalidField:
		return "a field has a value it cannot have"
	case CodeTooManyKeys:
		return "more keys than limits.batch_keys"
	case CodeBodyTooLarge:
		return "the body is larger than this route takes"
	case CodeBodyTooShort:
		return "the body is shorter than declared"
	case CodeBodyTooSlow:
		return "the body arrived too slowly"
	case CodeLengthRequired:
		return "the length must be declared"
	case CodeUnknownNamespace:
		return "unknown namespace"
	case CodeUnknownLease:
		return "unknown lease"
	case CodeUncleanPath:
		return "the path is not clean"
	case CodeNotFound:
		return "no such route"
	case CodeMethod:
		return "the route does not take this method"
	case CodeMediaType:
		return "the route does not take this media type"
	case CodeContentEncoding:
		return "the route takes a body only as it is, not encoded"
	case CodeForeignHost:
		return "the Host header names another host"
	case CodeForeignOrigin:
		return "a request with this Origin header is refused"
	case CodeForeignAddress:
		return "the listener does not serve this address"
	case CodeNotReady:
		return "the daemon does not serve now"
	case CodeInternal:
		return "internal error"
	case CodeUnauthorized:
		return "a token is needed"
	case CodeForbidden:
		return "the token does not give this right"
	case CodeOverloaded:
		return "too many requests at once"
	case CodeNotEmpty:
		return "the namespace holds entries"
	case CodeFromConfig:
		return "the namespace is in the configuration file"
	case CodeFingerprint:
		return "the namespace holds entries of another model"
	case CodeNoSegment:
		return "the namespace has no staging segment"
	case CodeUnknownSlab:
		return "unknown slab"
	case CodeScrubbing:
		return "a scrub of the slab is under way"
	}
	return Status(code).Meaning()
}

func badField(code, field, detail string, args ...any) *Problem {
	return NewProblem(http.StatusBadRequest, code, field, detail, args...)
}
