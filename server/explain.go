// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/store"
)

// word is a status in the words of the contract.
func word(s store.Status) api.Status { return api.Status(s.String()) }

// explain is the sentence that goes with a status: why, and what to do where
// the status does not say it.
func (x *exchange) explain(status store.Status, err error) string {
	late := fmt.Sprintf("not finished within %d ms", x.limit.Milliseconds())
	switch {
	case err == nil && status != store.Deadline:
		return ""
	case errors.Is(err, store.ErrOutcomeUnknown):
		return late + "; the outcome is unknown: " + cmp.Or(x.lookUp, "look the key up")
	case errors.Is(err, context.Canceled):
		return "the request was cancelled" + x.undone
	case err == nil, errors.Is(err, context.DeadlineExceeded):
		return late + x.undone
	case status == store.NoSpace || status == store.OverQuota:
		return x.tell(err) + "; remove keys: this release does not evict"
	}
	return x.tell(err)
}

// tell is an error's text for the sender of the request: devices, slots, and how full
// what all share is, are for administrators. The log has it all.
func (x *exchange) tell(err error) string {
	if x.access.admin {
		return err.Error()
	}
	return store.Plain(err)
}

// Times, in seconds, after which it is worth trying again where a slab does not
// serve. One that only fails transfers is tried again by itself before long.
const (
	retrySlab     = 30
	retryDegraded = 5
)

// keyProblem is the answer to a request for a single key that is not ok.
func (x *exchange) keyProblem(status store.Status, err error) *api.Problem {
	p := api.StatusProblem(word(status), x.explain(status, err))
	var of *store.SlabError
	if p.RetryAfter > 0 && errors.As(err, &of) {
		p.RetryAfter = retrySlab
		if of.Health == store.HealthDegraded {
			p.RetryAfter = retryDegraded
		}
	}
	return p
}

// explainKey is explain for an answer about key.
func (x *exchange) explainKey(key string, res store.KeyResult) string {
	if res.Status == store.InvalidKey {
		// The decoder made "" of what is not Unicode, which the store cannot know.
		return invalidKey(key)
	}
	return x.explain(res.Status, res.Err)
}

func invalidKey(key string) string {
	if err := api.CheckKey(key); err != nil {
		return err.Error()
	}
	return ""
}

// without is err's text without that of the sentinel it begins with, which the
// problem's title says already.
func without(err, sentinel error) string {
	return strings.TrimLeft(strings.TrimPrefix(err.Error(), sentinel.Error()), ": ")
}

// namespaces tells a client that asked for another one which there are.
func (s *Server) namespaces(x *exchange) string {
	const most = 8
	names := s.configured(x)
	if n := len(names); n == 0 || n > most {
		return "/v1/info lists those there are"
	}
	for i, n := range names {
		names[i] = fmt.Sprintf("%q", n)
	}
	return "configured: " + strings.Join(names, ", ")
}

// configured returns the names of the namespaces that are served and that the
// sender may know of.
func (s *Server) configured(x *exchange) []string {
	names := []string{}
	st := s.store.Load()
	if st == nil {
		return names
	}
	for _, n := range st.Status().Namespaces {
		if n.Configured && x.sees(n.Name) {
			names = append(names, n.Name)
		}
	}
	return names
}
