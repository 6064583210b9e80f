// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"strings"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/tokens"
)

// SetTokens makes requests over TCP present one of these tokens, and those on
// the admin listener one of an administrator; nil: nobody needs one. Requests
// that have begun keep the rights they were given, but for streams, which may
// have no end.
func (s *Server) SetTokens(t *tokens.Set) { s.tokens.Store(t) }

// authenticate fills in what the sender of a request may do. A token is taken
// off the request: nothing behind this can write it down.
//
// Who may open the unix socket is the business of its mode, so a request there
// needs no token; one that has a token has the rights of that token.
func (s *Server) authenticate(kind Kind, x *exchange, r *http.Request) error {
	given := r.Header.Values("Authorization")
	r.Header.Del("Authorization")
	set := s.tokens.Load()
	switch {
	case kind == leaseKind: // it gives the rights itself
		return nil
	case set == nil, kind == Unix && len(given) == 0:
		x.access = access{everything: true, admin: true, byToken: kind != Unix}
		return nil
	case isOpen(sentPath(r.URL)):
		return nil
	}
	presented := bearer(given)
	t := set.Find(presented)
	if t == nil {
		x.Header().Set("WWW-Authenticate", "Bearer")
		s.o.Log.Debug("request refused: no valid token", "method", r.Method, "remote", remote(r))
		return api.NewProblem(http.StatusUnauthorized, api.CodeUnauthorized, "Authorization", "send one of auth.token_file, as Authorization: Bearer TOKEN")
	}
	x.access = rightsOf(t, set, tokens.SumOf(presented))
	if kind == adminKind {
		return x.administers()
	}
	return nil
}

func rightsOf(t *tokens.Token, from *tokens.Set, sum tokens.Sum) access {
	return access{name: t.Name, everything: t.Everything, namespaces: t.Namespaces, admin: t.Admin, byToken: true, from: from, sum: sum}
}

// still tells whether the sender of a request that goes on for long has any right
// left, and gives it those that its token has now.
func (s *Server) still(x *exchange) bool {
	set := s.tokens.Load()
	if !x.access.byToken || set == x.access.from || set == nil {
		return true
	}
	if x.access.from == nil {
		return false // it began when nobody needed a token
	}
	t := set.FindSum(x.access.sum)
	if t == nil {
		return false
	}
	x.access = rightsOf(t, set, x.access.sum)
	return true
}

// isOpen tells of the routes that whoever watches the daemon asks, on every
// listener that has them and without a token.
func isOpen(path string) bool { return path == "/healthz" || path == "/readyz" }

// bearer returns the token of Authorization headers, or one that no file holds:
// the answer to a header that is none is that of a wrong token, and takes the
// same way.
func bearer(given []string) string {
	if len(given) != 1 {
		return ""
	}
	scheme, token, _ := strings.Cut(given[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// admins is a handler that only administrators reach.
func admins(h handler) handler {
	return func(x *exchange, r *http.Request) error {
		if err := x.administers(); err != nil {
			return err
		}
		return h(x, r)
	}
}
