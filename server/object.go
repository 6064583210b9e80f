// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"net/http"
	"strconv"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/store"
)

// objectName is what the path of a single object names.
func objectName(r *http.Request) (namespace, key string, err error) {
	namespace, key = r.PathValue("namespace"), r.PathValue("key")
	return namespace, key, api.CheckKey(key)
}

// object is what a request without a body is about: one key, and the time for it.
type object struct {
	namespace, key string
	st             *store.Store
	ctx            context.Context
	done           context.CancelFunc
}

// object reads the path and the query of such a request; own takes the
// parameters that not all of them have. The caller calls done.
func (s *Server) object(x *exchange, r *http.Request, own func(*query)) (object, error) {
	ns, key, err := objectName(r)
	if err != nil {
		return object{}, err
	}
	q := newQuery(r)
	own(q)
	deadline := q.deadline()
	if err := q.end(); err != nil {
		return object{}, err
	}
	if err := x.reach(ns); err != nil {
		return object{}, err
	}
	st, err := s.ready()
	if err != nil {
		return object{}, err
	}
	ctx, cancel := s.within(x, r, deadline)
	return object{ns, key, st, ctx, cancel}, nil
}

// put stores one object. Nothing of it is visible before all of it has arrived:
// a client that leaves in the middle leaves nothing behind.
func (s *Server) put(x *exchange, r *http.Request) error {
	ns, key, err := objectName(r)
	if err != nil {
		return err
	}
	x.undone = nothingStored
	if _, err := media(r, "", api.MediaOctets, api.MediaFrames, api.MediaJSON); err != nil {
		return err
	}
	q := newQuery(r)
	opts, deadline := q.storing()
	if err := q.end(); err != nil {
		return err
	}
	if err := s.declared(r); err != nil {
		return err
	}
	if err := x.reach(ns); err != nil {
		return err
	}
	st, err := s.ready()
	if err != nil {
		return err
	}
	ctx, cancel := s.within(x, r, deadline)
	defer cancel()
	if !opts.Overwrite {
		// What is stored already takes no memory, and its answer does not wait for the
		// bytes longer than the client has time; one that asked first need not send them.
		if now, err := st.Stored(ctx, ns, key); err != nil || now == store.Exists {
			return cmp.Or(err, error(x.keyProblem(now, nil)))
		}
	}
	batch, err := st.BeginStore(ctx, ns, opts)
	if err != nil {
		return err
	}
	defer batch.Abort()
	if err := x.body.first(); err != nil {
		return x.bodyError(err, 0, r.ContentLength)
	}
	buf, err := batch.Buffer(ctx, r.ContentLength, s.memoryWait(x))
	if err != nil {
		return err
	}
	x.hold.take(memory)
	if got, err := x.fill(buf, &x.body); err != nil {
		buf.Release()
		return x.bodyError(err, got, r.ContentLength)
	}
	x.hold.give(memory)
	batch.Add(store.StoreItem{Key: key, Len: r.ContentLength, Buf: buf})
	results, err := batch.Commit()
	if err != nil {
		return err
	}
	s.auditForced(x, r, ns, results)
	if res := results[0]; res.Status != store.OK {
		return x.keyProblem(res.Status, res.Err)
	}
	return x.json(api.PutResponse{Status: api.StatusOK, SlotBytes: results[0].SlotBytes})
}

// declared checks the length that a PUT declares.
func (s *Server) declared(r *http.Request) error {
	const field = "Content-Length"
	switch n := r.ContentLength; {
	case n < 0 || n == 0 && r.Header.Get(field) == "":
		return api.NewProblem(http.StatusLengthRequired, api.CodeLengthRequired, field, "declare the payload's length; a chunked body has none")
	case n == 0:
		return invalid(field, "a payload has at least one byte")
	case n > s.o.Limits.Payload:
		p := api.StatusProblem(api.StatusTooLarge, strconv.FormatInt(n, 10)+" bytes; the limit is "+strconv.FormatInt(s.o.Limits.Payload, 10))
		p.Field = field
		return p
	}
	return nil
}

// get loads one object. The header goes out only after all bytes are verified.
func (s *Server) get(x *exchange, r *http.Request) error {
	o, err := s.object(x, r, func(*query) {})
	if err != nil {
		return err
	}
	defer o.done()
	if tags := r.Header.Values("If-None-Match"); len(tags) > 0 {
		// What the client has already need not be read.
		found, err := lookOne(o.ctx, o.st, o.namespace, o.key)
		if err != nil {
			return err
		}
		if own := o.etag(found.Gen); found.Status == store.OK && tagged(tags, own) {
			return x.unchanged(own)
		}
	}
	loading, err := o.st.LoadWithin(o.ctx, o.namespace, []string{o.key}, s.o.MemoryWait)
	if err != nil {
		return err
	}
	defer loading.Close()
	item, _ := loading.Next()
	if item.Status != store.OK {
		s.metrics.outOfMemory(item.Err)
		return x.keyProblem(item.Status, item.Err)
	}
	defer item.Buf.Release()
	x.hold.take(memory)
	x.describe(item.Bytes, o.etag(item.Gen))
	x.WriteHeader(http.StatusOK)
	return payload(x, item.Buf)
}

// head says whether an object is there, and how long it is.
func (s *Server) head(x *exchange, r *http.Request) error {
	o, err := s.object(x, r, func(*query) {})
	if err != nil {
		return err
	}
	defer o.done()
	res, err := lookOne(o.ctx, o.st, o.namespace, o.key)
	if err != nil {
		return err
	}
	if res.Status != store.OK {
		return x.keyProblem(res.Status, res.Err)
	}
	etag := o.etag(res.Gen)
	if tagged(r.Header.Values("If-None-Match"), etag) {
		return x.unchanged(etag)
	}
	x.describe(res.Bytes, etag)
	x.WriteHeader(http.StatusOK)
	return nil
}

// remove deletes one object.
func (s *Server) remove(x *exchange, r *http.Request) error {
	if err := x.bodyless(r); err != nil {
		return err
	}
	force := false
	o, err := s.object(x, r, func(q *query) { force = q.boolean("force") })
	if err != nil {
		return err
	}
	defer o.done()
	removed, err := o.st.Remove(o.ctx, o.namespace, []string{o.key}, force)
	if force {
		s.audit(x, r, "forced remove", err, "namespace", o.namespace, "keys", 1, "removed", removed.Removed)
	}
	if err != nil {
		return err
	}
	if res := removed.Results[0]; res.Status != store.OK {
		return x.keyProblem(res.Status, res.Err)
	}
	return x.json(api.DeleteResponse{Status: api.StatusOK})
}
