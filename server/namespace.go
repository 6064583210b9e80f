// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/store"
)

// namespaceList answers the namespaces that the sender may know of, with their
// settings and what they use.
func (s *Server) namespaceList(x *exchange, r *http.Request) error {
	if err := newQuery(r).end(); err != nil {
		return err
	}
	st, err := s.ready()
	if err != nil {
		return err
	}
	res := api.NamespacesResponse{Namespaces: []api.Namespace{}}
	for _, n := range st.Namespaces() {
		if x.sees(n.Name) {
			res.Namespaces = append(res.Namespaces, namespaceView(n))
		}
	}
	return x.json(res)
}

// namespace answers one namespace.
func (s *Server) namespace(x *exchange, r *http.Request) error {
	if err := newQuery(r).end(); err != nil {
		return err
	}
	name := r.PathValue("namespace")
	if err := x.reach(name); err != nil {
		return err
	}
	st, err := s.ready()
	if err != nil {
		return err
	}
	n, err := st.Namespace(name)
	if err != nil {
		return err
	}
	return x.json(namespaceView(n))
}

// putNamespace changes what the request names of a namespace's settings, or
// makes a namespace.
func (s *Server) putNamespace(x *exchange, r *http.Request) error {
	b, err := s.body(x, r)
	if err != nil {
		return err
	}
	req, err := api.DecodeNamespace(b)
	if err != nil {
		return err
	}
	name := r.PathValue("namespace")
	if err := x.reach(name); err != nil {
		return err
	}
	st, err := s.ready()
	if err != nil {
		return err
	}
	x.undone, x.lookUp = nothingChanged, "ask for the namespace"
	ctx, cancel := s.within(x, r, 0)
	defer cancel()
	var before, after store.Namespace // of who has his answer: of another they are written still
	n, created, err := st.UpdateNamespace(ctx, name, func(set *store.Namespace) {
		before = *set
		edit(set, req)
		after = *set
	})
	if err != nil || created || !same(before, after) {
		s.auditNamespace(x, r, map[bool]string{false: "namespace changed", true: "namespace created"}[created], err, name,
			"slabs", n.Slabs, "quota", n.Quota, "ttl", n.TTL, "fingerprint", n.Fingerprint)
	}
	if err != nil {
		return err
	}
	return x.json(api.PutNamespaceResponse{Namespace: namespaceView(n), Created: created})
}

// nothingChanged is what a deadline leaves of a change that had not begun.
const nothingChanged = "; nothing was changed"

// deleteNamespace ends a namespace that holds nothing.
func (s *Server) deleteNamespace(x *exchange, r *http.Request) error {
	if err := x.bodyless(r); err != nil {
		return err
	}
	if err := newQuery(r).end(); err != nil {
		return err
	}
	name := r.PathValue("namespace")
	if err := x.reach(name); err != nil {
		return err
	}
	st, err := s.ready()
	if err != nil {
		return err
	}
	x.undone, x.lookUp = nothingChanged, "ask for the namespace"
	ctx, cancel := s.within(x, r, 0)
	defer cancel()
	err = st.DeleteNamespace(ctx, name)
	s.auditNamespace(x, r, "namespace deleted", err, name)
	if err != nil {
		return err
	}
	return x.json(api.DeleteNamespaceResponse{Name: name})
}

// clear removes a namespace's entries. It is a POST, with the name given twice:
// no key, however it is written in a path, and no request for a key makes one.
func (s *Server) clear(x *exchange, r *http.Request) error {
	b, err := s.body(x, r)
	if err != nil {
		return err
	}
	name := r.PathValue("namespace")
	req, err := api.DecodeClear(b, name)
	if err != nil {
		return err
	}
	if err := x.reach(name); err != nil {
		return err
	}
	st, err := s.ready()
	if err != nil {
		return err
	}
	ctx, cancel := s.within(x, r, req.DeadlineMS)
	defer cancel()
	res, err := st.Clear(ctx, name)
	s.auditNamespace(x, r, "clear", err, name, "removed", res.Removed, "pinned", res.Pinned)
	if err != nil {
		x.undone, x.lookUp = fmt.Sprintf("; %d entries were removed: clear again", res.Removed), "clear again"
		return err
	}
	return x.json(api.ClearResponse{Removed: res.Removed, Pinned: res.Pinned})
}

// auditNamespace logs a change of a namespace, unless it was refused.
func (s *Server) auditNamespace(x *exchange, r *http.Request, what string, err error, name string, attrs ...any) {
	if err == nil || errors.Is(err, store.ErrOutcomeUnknown) || errors.Is(err, store.ErrUnavailable) || what == "clear" && !errors.Is(err, store.ErrNamespace) {
		s.audit(x, r, what, err, append([]any{"namespace", name}, attrs...)...)
	}
}

// same tells whether two settings of a namespace are the same.
func same(a, b store.Namespace) bool {
	return slices.Equal(a.Slabs, b.Slabs) && a.Quota == b.Quota && a.TTL == b.TTL && a.Fingerprint == b.Fingerprint
}

// edit gives set what the request names.
func edit(set *store.Namespace, req api.NamespaceRequest) {
	if req.Slabs != nil {
		set.Slabs = *req.Slabs
	}
	if req.Quota != nil {
		set.Quota = *req.Quota
	}
	if req.TTLMS != nil {
		set.TTL = time.Duration(*req.TTLMS) * time.Millisecond
	}
	if req.Fingerprint != nil {
		set.Fingerprint = *req.Fingerprint
	}
}

func namespaceView(n store.NamespaceInfo) api.Namespace {
	v := api.Namespace{
		Name: n.Name, Slabs: n.Slabs, Quota: n.Quota, TTLMS: n.TTL.Milliseconds(), Fingerprint: n.Fingerprint,
		Entries: n.Entries, SlotBytes: n.Used, PinnedBytes: n.Pinned, Served: n.Served, FromConfig: n.FromConfig,
	}
	if v.Slabs == nil {
		v.Slabs = []string{}
	}
	return v
}

// settingField is the wire's name of a setting.
func settingField(name string) string {
	switch name {
	case "name":
		return "namespace"
	case "ttl":
		return "ttl_ms"
	}
	return name
}
