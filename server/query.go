// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/store"
)

// query reads a request's parameters. The first fault is kept; end returns it,
// and refuses parameters that nobody asked for.
type query struct {
	values url.Values
	err    error
}

func newQuery(r *http.Request) *query {
	values, err := url.ParseQuery(r.URL.RawQuery)
	q := &query{values: values}
	if err != nil {
		q.fail("query", "%v", err)
	}
	return q
}

func (q *query) fail(name, detail string, args ...any) {
	if q.err == nil {
		q.err = invalid(name, detail, args...)
	}
}

func (q *query) text(name string) string {
	v, ok := q.values[name]
	delete(q.values, name)
	switch {
	case !ok:
		return ""
	case len(v) > 1:
		q.fail(name, "given %d times", len(v))
	case !utf8.ValidString(v[0]):
		q.fail(name, "not valid UTF-8")
	}
	return v[0]
}

func (q *query) boolean(name string) bool {
	switch q.text(name) {
	case "true", "1":
		return true
	case "", "false", "0":
	default:
		q.fail(name, "want true or false")
	}
	return false
}

// booleanOr is boolean with another value for what is absent.
func (q *query) booleanOr(name string, absent bool) bool {
	if v := q.values[name]; len(v) == 0 || len(v) == 1 && v[0] == "" {
		delete(q.values, name)
		return absent
	}
	return q.boolean(name)
}

// number reads a whole number from low to high; absent is zero.
func (q *query) number(name string, low, high int64) int64 {
	s := q.text(name)
	if s == "" {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < low || n > high {
		q.fail(name, "want a whole number from %d to %d", low, high)
		return 0
	}
	return n
}

// seconds reads a span that may have a fraction; absent is zero.
func (q *query) seconds(name string) time.Duration {
	s := q.text(name)
	if s == "" {
		return 0
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 0 && v <= api.MaxMillis/1000) { // NaN is neither
		q.fail(name, "want seconds from 0 to %d", api.MaxMillis/1000)
		return 0
	}
	return time.Duration(v * float64(time.Second))
}

// given tells whether a parameter is there, though it be empty.
func (q *query) given(name string) bool {
	_, ok := q.values[name]
	return ok
}

func (q *query) end() error {
	if q.err == nil && len(q.values) > 0 {
		names := make([]string, 0, len(q.values))
		for n := range q.values {
			names = append(names, n)
		}
		return api.NewProblem(http.StatusBadRequest, api.CodeUnknownField, slices.Min(names), "no such parameter here")
	}
	return q.err
}

// storing reads the parameters of a store.
func (q *query) storing() (o store.StoreOptions, deadlineMS int64) {
	o = store.StoreOptions{
		Overwrite: q.boolean("overwrite"),
		Force:     q.boolean("force"),
		TTL:       time.Duration(q.number("ttl_ms", 0, api.MaxMillis)) * time.Millisecond,
		After:     q.key("after"),
		Family:    q.key("family"),
	}
	return o, q.deadline()
}

func (q *query) deadline() int64 { return q.number("deadline_ms", 1, api.MaxMillis) }

// key reads an optional key.
func (q *query) key(name string) string {
	k := q.text(name)
	if k != "" {
		if err := api.CheckKey(k); err != nil {
			q.fail(name, "%v", err)
		}
	}
	return k
}
