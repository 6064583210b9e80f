// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"net/http"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/store"
	"github.com/rawblockd/rawblockd/tokens"
)

// access is what the sender of a request may do.
type access struct {
	name       string          // of the token, for the log; empty: none was needed
	everything bool            // all namespaces
	namespaces map[string]bool // those it may use, unless everything
	admin      bool            // it may change namespaces and slabs, and read the reports

	byToken bool        // the listener asks for tokens, or there was one
	from    *tokens.Set // what the rights were taken from; nil: nobody needed a token
	sum     tokens.Sum  // of the token
}

// sees tells whether the sender may know of a namespace.
func (x *exchange) sees(namespace string) bool {
	return x.access.everything || x.access.namespaces[namespace]
}

// reach returns an error if the sender may not use a namespace: the one of a
// namespace that does not exist, so that nobody learns which others there are.
func (x *exchange) reach(namespace string) error {
	x.about.setNamespace(clip(namespace))
	if x.sees(namespace) {
		return nil
	}
	return fmt.Errorf("%w %q", store.ErrNamespace, clip(namespace))
}

// administers returns an error unless the sender may change what is not keys.
func (x *exchange) administers() error {
	if x.access.admin {
		return nil
	}
	return api.NewProblem(http.StatusForbidden, api.CodeForbidden, "Authorization", "this needs a token with admin: true")
}
