// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/rawblockd/rawblockd/api"
)

// router matches paths as they were sent, segment by segment: what is escaped
// in a segment is data. http.ServeMux decodes a path before it looks for the
// end of it, so that to it the key "/" is no key at all.
type router struct {
	s      *Server
	routes []route
}

// route is one pattern, such as /v1/kv/{namespace}/{key}.
type route struct {
	pattern string
	segs    []string
	serve   func(x *exchange, r *http.Request)
}

// handle registers the methods of a path. A method that it does not take is a
// problem like any.
func (t *router) handle(pattern string, m methods) {
	allow := strings.Join(slices.Sorted(maps.Keys(m)), ", ")
	t.routes = append(t.routes, route{pattern, strings.Split(pattern[1:], "/"), func(x *exchange, r *http.Request) {
		h := m[r.Method]
		if h == nil {
			x.Header().Set("Allow", allow)
			h = func(*exchange, *http.Request) error {
				return api.NewProblem(http.StatusMethodNotAllowed, api.CodeMethod, "", "%s; it takes %s", clip(r.Method), allow)
			}
		}
		t.s.finish(x, r, h(x, r))
	}})
}

// sentPath is a request's path as it was sent. EscapedPath is not, where the
// path holds a byte that should have been escaped and was not: it then escapes
// the decoded path anew, and an escaped slash has become a real one.
func sentPath(u *url.URL) string {
	if u.RawPath != "" {
		return u.RawPath
	}
	return u.EscapedPath()
}

// find looks for the route of a path that api.CheckPath has passed, and
// decodes its segments.
func (t *router) find(path string) (*route, []string) {
	segs := segments(path)
	for i := range t.routes {
		if rt := &t.routes[i]; len(rt.segs) == len(segs) && rt.matches(segs) {
			return rt, segs
		}
	}
	return nil, segs
}

func segments(path string) []string {
	segs := strings.Split(path[1:], "/")
	for i, seg := range segs {
		segs[i], _ = url.PathUnescape(seg) // a broken escape does not get here
	}
	return segs
}

// matches compares as many segments as the route has.
func (rt *route) matches(segs []string) bool {
	for i, want := range rt.segs {
		if want[0] != '{' && want != segs[i] {
			return false
		}
	}
	return true
}

// ServeHTTP implements http.Handler.
func (t *router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := sentPath(r.URL)
	rt, segs := t.find(path)
	if rt == nil {
		r.Pattern = "/"
		t.s.finish(w.(*exchange), r, t.unknown(path, segs))
		return
	}
	r.Pattern = rt.pattern
	w.(*exchange).about.setRoute(rt.pattern)
	for i, name := range rt.segs {
		if name[0] == '{' {
			r.SetPathValue(name[1:len(name)-1], segs[i])
		}
	}
	rt.serve(w.(*exchange), r)
}

// unknown is the problem of a path that no route has. A slash in a key that was
// not escaped is the likely cause below the route of a key.
func (t *router) unknown(path string, segs []string) error {
	why := fmt.Sprintf("%q", clip(path))
	for _, rt := range t.routes {
		n := len(rt.segs)
		if rt.segs[n-1] == "{key}" && len(segs) > n && rt.matches(segs) {
			sent := strings.Split(path, "/")
			why += "; write / in a key as %2F: " + clip(strings.Join(sent[:n+1], "/")+"%2F"+strings.Join(sent[n+1:], "%2F"))
		}
	}
	return api.NewProblem(http.StatusNotFound, api.CodeNotFound, "path", "%s", why)
}

// clip shortens what a client sent for a message.
func clip(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
