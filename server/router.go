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
	strict bool // a method that a path does not take makes it an unknown path
}

// route is one pattern, such as /v1/kv/{namespace}/{key}.
type route struct {
	pattern string
	segs    []string
	methods methods
}

// handle registers the methods of a path. Where two patterns fit a path, the one
// registered first gets the methods that it takes, and the other the rest: a
// clear is a POST to what is for all other methods the key "clear".
func (t *router) handle(pattern string, m methods) {
	t.routes = append(t.routes, route{pattern, strings.Split(pattern[1:], "/"), m})
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
// decodes its segments. A route of the path that does not take the method comes
// without a handler and with the methods that the path takes.
func (t *router) find(method, path string) (rt *route, h handler, allow, segs []string) {
	segs = segments(path)
	for i := range t.routes {
		if one := &t.routes[i]; len(one.segs) == len(segs) && one.matches(segs) {
			rt, h = one, one.methods[method]
			if h != nil {
				return rt, h, nil, segs
			}
			allow = slices.AppendSeq(allow, maps.Keys(one.methods))
		}
	}
	slices.Sort(allow)
	return rt, nil, allow, segs
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
	x, path := w.(*exchange), sentPath(r.URL)
	rt, h, allow, segs := t.find(r.Method, path)
	if rt == nil || h == nil && t.strict {
		r.Pattern = "/"
		t.s.finish(x, r, t.unknown(path, segs))
		return
	}
	r.Pattern = rt.pattern
	x.about.setRoute(rt.pattern)
	if h == nil {
		all := strings.Join(allow, ", ")
		x.Header().Set("Allow", all)
		t.s.finish(x, r, api.NewProblem(http.StatusMethodNotAllowed, api.CodeMethod, "", "%s; it takes %s", clip(r.Method), all))
		return
	}
	for i, name := range rt.segs {
		if name[0] == '{' {
			r.SetPathValue(name[1:len(name)-1], segs[i])
		}
	}
	t.s.finish(x, r, t.s.execute(x, r, h))
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
