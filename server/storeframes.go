// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/store"
)

// batchStore stores the frames of the body. A key is written as soon as its
// bytes have arrived, and all of them become visible together after the last
// frame; whatever goes wrong before leaves nothing behind.
func (s *Server) batchStore(x *exchange, r *http.Request) error {
	x.undone = nothingStored
	kind, err := media(r, api.MediaFrames, api.MediaJSON)
	if err != nil {
		return err
	}
	if kind == api.MediaJSON {
		b, err := s.readBody(x, r)
		if err != nil {
			return err
		}
		return api.DecodeStore(b, s.o.Limits.BatchKeys)
	}
	q := newQuery(r)
	ns := q.text("namespace")
	opts, deadline := q.storing()
	if err := q.end(); err != nil {
		return err
	}
	if ns == "" {
		return api.MissingNamespace()
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
	batch, err := st.BeginStore(ctx, ns, opts)
	if err != nil {
		return err
	}
	defer batch.Abort()
	in := incoming{x: x, batch: batch, limits: s.o.Limits, wait: s.o.MemoryWait, frames: api.NewFrameReader(&x.body)}
	if err := in.readAll(ctx); err != nil {
		return err
	}
	s.metrics.batch("store", len(in.results))
	x.about.setKeys(len(in.results))
	results, err := batch.Commit()
	if err != nil {
		return err
	}
	s.auditForced(x, r, ns, results)
	return x.json(in.answer(results))
}

// incoming is a batch of frames being received.
type incoming struct {
	x      *exchange
	batch  *store.Storing
	limits Limits
	wait   time.Duration // for the first frame's memory
	frames *api.FrameReader
	// results has an answer for every frame that the store never saw; the
	// others, whose status is "", are the store's, in order.
	results []api.StoreResult
}

func (in *incoming) readAll(ctx context.Context) error {
	for {
		in.x.body.arm(1) // the time that the budget made the client wait is not the client's
		f, err := in.frames.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return in.fault(err)
		}
		if len(in.results) == in.limits.BatchKeys {
			return api.TooManyKeys(in.limits.BatchKeys)
		}
		res, err := in.read(ctx, f)
		if err != nil {
			return err
		}
		in.results = append(in.results, res)
	}
}

// read takes one frame in. A frame that cannot be stored is skipped by its
// length and has its answer at once.
func (in *incoming) read(ctx context.Context, f api.Frame) (api.StoreResult, error) {
	n := len(in.results)
	switch {
	case f.Status != "" && f.Status != api.StatusOK:
		return api.StoreResult{}, frameProblem("status", n, fmt.Sprintf("%q in a store", f.Status))
	case api.CheckKey(f.Key) != nil:
		return api.StoreResult{Status: api.StatusInvalidKey, Error: invalidKey(f.Key)}, nil
	case f.Bytes == 0:
		return api.StoreResult{Status: api.StatusSizeMismatch, Error: "a payload has at least one byte"}, nil
	case f.Bytes > in.limits.Payload:
		return api.StoreResult{Status: api.StatusTooLarge, Error: fmt.Sprintf("%d bytes; the limit is %d", f.Bytes, in.limits.Payload)}, nil
	}
	// Only the first frame is refused for want of memory: what has arrived is
	// worth waiting for.
	wait := in.wait
	if n > 0 {
		wait = 0
	}
	if err := in.frames.Await(); err != nil {
		return api.StoreResult{}, in.fault(err)
	}
	buf, err := in.batch.Buffer(ctx, f.Bytes, wait)
	if err != nil {
		return api.StoreResult{}, err
	}
	in.x.hold.take(memory)
	defer in.x.hold.give(memory)
	if _, err := in.x.fill(buf, in.frames); err != nil {
		buf.Release()
		return api.StoreResult{}, in.fault(err)
	}
	in.batch.Add(store.StoreItem{Key: f.Key, Len: f.Bytes, Buf: buf})
	return api.StoreResult{}, nil
}

// fault tells a malformed body from a broken connection.
func (in *incoming) fault(err error) error {
	if errors.Is(err, api.ErrFrame) {
		return err
	}
	return in.x.bodyError(err, in.x.body.got.Load(), -1)
}

// answer merges the store's results with those it never saw.
func (in *incoming) answer(stored []store.StoreResult) api.StoreResponse {
	in.x.undone = "; the key was not stored"
	res := api.StoreResponse{Results: in.results}
	if res.Results == nil {
		res.Results = []api.StoreResult{}
	}
	for i := range res.Results {
		k := &res.Results[i]
		if k.Status == "" {
			*k = api.StoreResult{Status: word(stored[0].Status), SlotBytes: stored[0].SlotBytes, Error: in.x.explain(stored[0].Status, stored[0].Err)}
			stored = stored[1:]
		}
		if k.Status == api.StatusOK {
			res.OK++
		}
	}
	return res
}

func frameProblem(field string, n int, why string) *api.Problem {
	return api.NewProblem(http.StatusBadRequest, api.CodeMalformedFrame, field, "frame %d: %s; nothing was stored", n, why)
}
