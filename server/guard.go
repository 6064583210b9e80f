// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/rawblockd/rawblockd/api"
)

// guard refuses what must not reach the mux.
func (s *Server) guard(kind Kind, r *http.Request) error {
	path := sentPath(r.URL)
	if path == "/debug/pprof/" { // profiles link to each other relative to it
		path = "/debug/pprof"
		r.URL.Path, r.URL.RawPath = path, ""
	}
	if err := api.CheckPath(path); err != nil {
		return err
	}
	if kind == Unix {
		return nil
	}
	if err := s.checkHost(r.Host); err != nil {
		return err
	}
	return checkOrigin(r)
}

func hostSet(names []string) map[string]bool {
	set := map[string]bool{"localhost": true}
	for _, n := range names {
		set[strings.ToLower(n)] = true
	}
	return set
}

// checkHost refuses host names that are not ours: a page whose name was pointed
// at this address (DNS rebinding) would be same-origin with us. An address
// cannot be pointed anywhere, so every one is accepted; so is none at all, which
// no browser sends.
func (s *Server) checkHost(host string) error {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if name == "" || s.hosts[name] {
		return nil
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return nil
	}
	if c := s.certificate.Load(); c != nil && c.Leaf.VerifyHostname(name) == nil {
		return nil // who gave it to us vouches for its names
	}
	return api.NewProblem(http.StatusForbidden, api.CodeForeignHost, "Host", "%q: use an address, localhost or this host's name", host)
}

// checkOrigin refuses requests that a page of another origin makes, and of a
// page of ours those that may change something.
func checkOrigin(r *http.Request) error {
	for _, origin := range r.Header.Values("Origin") {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			return api.NewProblem(http.StatusForbidden, api.CodeForeignOrigin, "Origin", "%q: web pages may only read; a program sends no Origin", clip(origin))
		}
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) {
			return api.NewProblem(http.StatusForbidden, api.CodeForeignOrigin, "Origin", "%q is another origin", clip(origin))
		}
	}
	return nil
}
