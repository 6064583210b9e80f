// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/rawblockd/rawblockd/api"
)

// Exchange is one request and its answer, as they were sent.
type Exchange struct {
	Listener string // unix, http, admin or lease; empty: not known
	Method   string // empty: the request cannot be read
	Target   string // of the request line: path and query, escaped
	Header   http.Header
	Body     []byte
	Whole    bool // Body is all of the request's body, and it was sent

	Status   int
	Answer   http.Header
	Content  []byte
	Complete bool // Content is all of the answer's body
}

// path and query of the target, which may be a whole URL.
func (e *Exchange) path() (path, query string) {
	target := e.Target
	if _, rest, ok := strings.Cut(target, "://"); ok {
		_, path, _ := strings.Cut(rest, "/")
		target = "/" + path
	}
	path, query, _ = strings.Cut(target, "?")
	return path, query
}

// problem is the problem that was answered; its Code is empty if none was.
func (e *Exchange) problem() api.Problem {
	var p api.Problem
	if e.Answer.Get("Content-Type") == api.MediaProblem {
		_ = json.Unmarshal(e.Content, &p) // what is no problem is found by its schema
	}
	return p
}

// Code is the code of the problem that was answered, if one was.
func (e *Exchange) Code() string { return e.problem().Code }
