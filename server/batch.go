// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/store"
)

// body reads a JSON body whole. It is bounded by what the largest batch needs.
func (s *Server) body(x *exchange, r *http.Request) ([]byte, error) {
	if _, err := media(r, api.MediaJSON); err != nil {
		return nil, err
	}
	return s.readBody(x, r)
}

func (s *Server) readBody(x *exchange, r *http.Request) ([]byte, error) {
	if err := newQuery(r).end(); err != nil {
		return nil, err
	}
	return s.readWhole(x, r, 0)
}

// readWhole reads a body, within ms milliseconds if that is not 0.
func (s *Server) readWhole(x *exchange, r *http.Request, ms int64) ([]byte, error) {
	limit := api.MaxJSONBody(s.o.Limits.BatchKeys)
	tooLarge := api.NewProblem(http.StatusRequestEntityTooLarge, api.CodeBodyTooLarge, "", "at most %d bytes; send several requests", limit)
	if r.ContentLength > limit {
		return nil, tooLarge
	}
	_, cancel := s.within(x, r, ms)
	defer cancel()
	var buf []byte
	var err error
	for {
		if len(buf) == cap(buf) {
			if buf, err = s.more(x, buf, limit, r.ContentLength); err != nil {
				return nil, err
			}
		}
		var n int
		n, err = x.body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case int64(len(buf)) > limit:
			return nil, tooLarge
		case err == io.EOF:
			return buf, nil
		case err != nil:
			return nil, x.bodyError(err, int64(len(buf)), r.ContentLength)
		}
	}
}

// firstBody is the memory, in bytes, that a body begins with: most need no more.
const firstBody = 16 << 10

// more makes room in a body that is full, and charges for it. What is declared is
// believed only as far as it has arrived. There is always room for a byte beyond
// the limit, so that whoever sends it is found out.
func (s *Server) more(x *exchange, buf []byte, limit, declared int64) ([]byte, error) {
	size := max(2*int64(cap(buf)), firstBody)
	if declared >= int64(len(buf)) {
		size = min(size, max(declared+1, 512)) // and one for the end
	}
	size = min(size, limit+1)
	if !x.hold.charge(min(size, limit) - min(int64(cap(buf)), limit)) {
		return nil, s.overloaded(text, "the JSON bodies under way take all of limits.json_bytes, %d bytes", s.texts.limit)
	}
	return append(make([]byte, 0, size), buf...), nil
}

// named is a request that says which namespace it is about.
type named interface {
	In() string
	Count() int // of keys
}

// call is what every batch in JSON begins with: its body, decoded, and the
// store.
func call[R named](s *Server, x *exchange, r *http.Request, decode func([]byte, int) (R, error)) (R, *store.Store, error) {
	var req R
	b, err := s.body(x, r)
	if err != nil {
		return req, nil, err
	}
	if req, err = decode(b, s.o.Limits.BatchKeys); err != nil {
		return req, nil, err
	}
	st, err := s.admit(x, req)
	return req, st, err
}

// admit returns the store for a request that is well-formed.
func (s *Server) admit(x *exchange, req named) (*store.Store, error) {
	if err := x.reach(req.In()); err != nil {
		return nil, err
	}
	x.about.setKeys(req.Count())
	return s.ready()
}

func (s *Server) batchLookup(x *exchange, r *http.Request) error {
	req, st, err := s.lookupRequest(x, r)
	if err != nil {
		return err
	}
	s.metrics.batch("lookup", len(req.Keys))
	ctx, cancel := s.within(x, r, req.DeadlineMS)
	defer cancel()
	o := store.LookupOptions{Prefix: req.Prefix}
	if req.Lease != nil {
		l := leaseRequest(*req.Lease)
		o.Lease = &l
	}
	found, err := st.Lookup(ctx, req.Namespace, req.Keys, o)
	if err != nil {
		giveBack(st, found.Lease)
		return err
	}
	if prefers(r, api.MediaOctets, api.MediaJSON) {
		return x.bits(found)
	}
	res := api.LookupResponse{Results: make([]api.KeyResult, len(found.Results)), Hits: found.Hits, PrefixHits: found.PrefixHits, Lease: leaseView(found.Lease)}
	for i, k := range found.Results {
		res.Results[i] = api.KeyResult{Status: word(k.Status), Bytes: k.Bytes, Error: x.explainKey(req.Keys[i], k)}
	}
	return x.json(res)
}

func (s *Server) batchRemove(x *exchange, r *http.Request) error {
	req, st, err := call(s, x, r, api.DecodeRemove)
	if err != nil {
		return err
	}
	s.metrics.batch("remove", len(req.Keys))
	ctx, cancel := s.within(x, r, req.DeadlineMS)
	defer cancel()
	removed, err := st.Remove(ctx, req.Namespace, req.Keys, req.Force)
	if req.Force {
		s.audit(x, r, "forced remove", err, "namespace", req.Namespace, "keys", len(req.Keys), "removed", removed.Removed)
	}
	if err != nil {
		return err
	}
	return x.json(api.RemoveResponse{Results: x.statuses(req.Keys, removed.Results), Removed: removed.Removed})
}

func (s *Server) batchPin(x *exchange, r *http.Request) error {
	req, st, err := call(s, x, r, api.DecodePin)
	if err != nil {
		return err
	}
	s.metrics.batch("pin", len(req.Keys))
	ctx, cancel := s.within(x, r, req.DeadlineMS)
	defer cancel()
	pinned, err := st.Pin(ctx, req.Namespace, req.Keys, leaseRequest(req.LeaseRequest))
	if err != nil {
		giveBack(st, pinned.Lease)
		return err
	}
	return x.json(api.PinResponse{Results: x.statuses(req.Keys, pinned.Results), Lease: leaseView(pinned.Lease)})
}

func (s *Server) batchUnpin(x *exchange, r *http.Request) error {
	req, st, err := call(s, x, r, api.DecodeUnpin)
	if err != nil {
		return err
	}
	s.metrics.batch("unpin", len(req.Keys))
	ctx, cancel := s.within(x, r, req.DeadlineMS)
	defer cancel()
	released, stale, err := st.Unpin(ctx, req.Namespace, req.Lease, req.Keys)
	if err != nil {
		return err
	}
	return x.json(api.UnpinResponse{Released: released, Stale: stale})
}

func (s *Server) batchTouch(x *exchange, r *http.Request) error {
	req, st, err := call(s, x, r, api.DecodeTouch)
	if err != nil {
		return err
	}
	s.metrics.batch("touch", len(req.Keys))
	ctx, cancel := s.within(x, r, req.DeadlineMS)
	defer cancel()
	touched, err := st.Touch(ctx, req.Namespace, req.Keys, time.Duration(req.TTLMS)*time.Millisecond)
	if err != nil {
		return err
	}
	return x.json(api.TouchResponse{Results: x.statuses(req.Keys, touched.Results), Touched: touched.Touched})
}

func (x *exchange) statuses(keys api.Keys, results []store.KeyResult) []api.StatusResult {
	out := make([]api.StatusResult, len(results))
	for i, k := range results {
		out[i] = api.StatusResult{Status: word(k.Status), Error: x.explainKey(keys[i], k)}
	}
	return out
}

func leaseRequest(l api.LeaseRequest) store.LeaseRequest {
	return store.LeaseRequest{TTL: time.Duration(l.TTLMS) * time.Millisecond, Owner: l.Owner}
}

func leaseView(l *store.Lease) *api.Lease {
	if l == nil {
		return nil
	}
	return &api.Lease{ID: l.ID, Namespace: l.Namespace, Owner: l.Owner, TTLMS: l.TTL.Milliseconds(), ExpiresAt: l.ExpiresAt.UTC(), Entries: l.Entries}
}

// giveBack releases a lease that its client will not hear of. That it may be
// gone already is no error.
func giveBack(st *store.Store, l *store.Lease) {
	if l != nil {
		_, _, _ = st.Unpin(context.Background(), l.Namespace, l.ID, nil)
	}
}
