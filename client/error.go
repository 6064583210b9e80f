// SPDX-License-Identifier: Apache-2.0

package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rawblockd/rawblockd/api"
)

// Error is a request that the daemon answered with a problem.
type Error struct {
	Op         string // as in "GET /v1/kv/default/key"
	Addr       string
	StatusCode int           // HTTP
	RetryAfter time.Duration // 0: the daemon did not say
	Problem    api.Problem
}

// Error returns one line.
func (e *Error) Error() string { return fmt.Sprintf("%s at %s: %s", e.Op, e.Addr, e.Problem.Error()) }

// Unwrap returns the *api.Problem.
func (e *Error) Unwrap() error { return &e.Problem }

// Code returns the problem's code: a word of api.Status or an api.Code.
func (e *Error) Code() string { return e.Problem.Code }

// StatusOf returns the status that a single-object request was answered with;
// ok is false when err is not about the key.
func StatusOf(err error) (s api.Status, ok bool) {
	var e *Error
	if !errors.As(err, &e) {
		return "", false
	}
	s = api.Status(e.Problem.Code)
	return s, s.Valid()
}

// maxProblem bounds what is read of an error's body.
const maxProblem = 64 << 10

// refusal turns an answer that is no success into an *Error. It reads and
// closes the body.
func (c *Client) refusal(op string, resp *http.Response) *Error {
	defer func() { _ = resp.Body.Close() }() // nothing of it is needed any more
	e := &Error{Op: op, Addr: c.addr, StatusCode: resp.StatusCode}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		e.RetryAfter = time.Duration(s) * time.Second
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	if strings.HasPrefix(resp.Header.Get("Content-Type"), api.MediaProblem) &&
		json.Unmarshal(text, &e.Problem) == nil && e.Problem.Code != "" {
		return e
	}
	e.Problem = guess(resp.StatusCode, strings.TrimSpace(string(text)))
	return e
}

// guess makes a problem of an answer without one: HEAD has no body, and what
// answers may be no rawblockd.
func guess(code int, detail string) api.Problem {
	if len(detail) > 200 {
		detail = detail[:200] + "…"
	}
	for _, s := range []api.Status{api.StatusMissing, api.StatusExists, api.StatusPinned, api.StatusTooLarge, api.StatusNoSpace, api.StatusUnavailable, api.StatusDeadline, api.StatusInvalidKey} {
		if s.HTTP() == code && detail == "" {
			return *api.StatusProblem(s, "")
		}
	}
	return api.Problem{Title: http.StatusText(code), Status: code, Code: api.CodeInternal, Detail: detail}
}
