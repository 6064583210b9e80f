// SPDX-License-Identifier: Apache-2.0

package slab

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/rawblockd/rawblockd/ioengine"
)

// ReadReq asks for one payload. Dst is made of parts of PieceSize; the last may be
// exactly the tail, and then no byte past it is touched, or anything longer, and
// then whole blocks are read into it directly. Memory the device cannot reach
// (misaligned) is served through bounce memory.
type ReadReq struct {
	Payload
	Dst [][]byte
}

// readCall is one Read under way. The slices belong to the call; the engine and
// the goroutines that finish ops share them by index.
type readCall struct {
	s    *Slab
	reqs []ReadReq
	done func(int, error)
	left atomic.Int64 // requests without an answer

	verify bool

	state []readState
	ops   []ioengine.Op
	meta  []readOp
	vecs  [][]byte // what the Vec of all ops are cut from
	sent  int      // ops given to the engine; of the calling goroutine
}

// readState is one request.
type readState struct {
	failure
	pending atomic.Int32   // ops not finished
	covers  []atomic.Int32 // of each piece: ops not finished
	sums    []uint64       // of each piece, once covers is 0
}

// readOp belongs to the op of the same index.
type readOp struct {
	req    int
	sp     span
	direct int64         // leading bytes that go straight to Dst
	buf    *ioengine.Buf // the rest, if any; released when the op ends
}

// Read reads payloads and calls done once for each request, from engine goroutines,
// possibly before Read returns. A payload is verified while its pieces arrive, each
// hashed by the goroutine that finished it; ErrCorrupt if it does not match,
// *IOError if any of its ops failed.
//
// All ops go to the engine in one Submit, unless bounce memory runs out on the way:
// then Read waits for some.
func (s *Slab) Read(reqs []ReadReq, done func(i int, err error)) {
	s.read(reqs, !s.verifyOff, done)
}

// ReadVerified is Read that verifies also where Options.VerifyOff does without.
func (s *Slab) ReadVerified(reqs []ReadReq, done func(i int, err error)) {
	s.read(reqs, true, done)
}

func (s *Slab) read(reqs []ReadReq, verify bool, done func(i int, err error)) {
	if len(reqs) == 0 {
		return
	}
	if err := s.enter(); err != nil {
		for i := range reqs {
			done(i, err)
		}
		return
	}
	c := &readCall{s: s, reqs: reqs, done: done, verify: verify, state: make([]readState, len(reqs))}
	c.left.Store(int64(len(reqs)))
	for i, err := range c.prepare() {
		if err != nil {
			c.finish(i, fmt.Errorf("%s: read: %w", title(s.name), err))
			continue
		}
		c.plan(i)
	}
	c.submit()
}

// prepare checks all requests and makes room for what they need, so that a call
// allocates the same few times whatever its size. It returns what is wrong with
// each.
func (c *readCall) prepare() []error {
	bad := make([]error, len(c.reqs))
	ops, parts := 0, 0
	for i := range c.reqs {
		r := &c.reqs[i]
		if bad[i] = c.s.checkShape(r.Slots, r.Len, r.Dst); bad[i] == nil {
			n := c.s.countSpans(r.Len, c.s.readSplit(r.Dst), 0)
			c.state[i].pending.Store(int32(n))
			ops, parts = ops+n, parts+len(r.Dst)
		}
	}
	c.ops, c.meta = make([]ioengine.Op, 0, ops), make([]readOp, 0, ops)
	c.vecs = make([][]byte, 0, parts+2*ops) // an op touches whole parts, and a part of one at most, and bounces one
	covers, sums := make([]atomic.Int32, parts), make([]uint64, parts)
	for i := range c.reqs {
		if bad[i] != nil {
			continue
		}
		r, st := &c.reqs[i], &c.state[i]
		n := len(r.Dst)
		st.covers, covers = covers[:n], covers[n:]
		st.sums, sums = sums[:n], sums[n:]
		c.s.spans(r.Len, c.s.readSplit(r.Dst), 0, func(sp span) {
			for p := sp.firstPiece(); p <= sp.lastPiece(); p++ {
				st.covers[p].Add(1)
			}
		})
	}
	return bad
}

// readSplit bounds bounce memory: a payload that needs it throughout moves by the
// piece, whatever the I/O size.
func (s *Slab) readSplit(mem [][]byte) int64 {
	if s.aligned(mem) {
		return s.ioSize
	}
	return ioengine.PieceSize
}

func (sp span) firstPiece() int { return int(sp.off / ioengine.PieceSize) }
func (sp span) lastPiece() int  { return int((sp.off + sp.n - 1) / ioengine.PieceSize) }

// plan turns one request into ops.
func (c *readCall) plan(req int) {
	r := &c.reqs[req]
	aligned := c.s.aligned(r.Dst)
	c.s.spans(r.Len, c.s.readSplit(r.Dst), 0, func(sp span) {
		m := readOp{req: req, sp: sp}
		op := ioengine.Op{Dir: ioengine.Read, Off: c.s.payloadAt(r.Slots, sp), Tag: r.Gen}
		whole := roundUp(sp.n, c.s.blk) // what the device moves
		switch {
		case !aligned:
		case whole <= c.room(r, sp):
			m.direct = whole
		default:
			m.direct = roundDown(sp.n, c.s.blk)
		}
		from := len(c.vecs)
		c.vecs = appendParts(c.vecs, r.Dst, sp.off, m.direct)
		if rest := whole - m.direct; rest > 0 {
			buf, err := c.memory(rest)
			if err != nil {
				c.ended(&m, err)
				return
			}
			m.buf = buf
			c.vecs = append(c.vecs, buf.Chunks()[0][:rest])
		}
		op.Vec = c.vecs[from:len(c.vecs):len(c.vecs)]
		c.ops, c.meta = append(c.ops, op), append(c.meta, m)
	})
}

// room returns how many bytes of Dst there are from the start of a span, as far as
// the span may touch: up to the next cut, or to the end of the last part.
func (c *readCall) room(r *ReadReq, sp span) int64 {
	if sp.off+sp.n < r.Len {
		return sp.n
	}
	last := len(r.Dst) - 1
	return int64(last)*ioengine.PieceSize + int64(len(r.Dst[last])) - sp.off
}

// memory gets bounce memory. Before it waits it gives the engine what it has
// planned, whose bounce memory comes back by itself.
func (c *readCall) memory(n int64) (*ioengine.Buf, error) {
	if buf, ok := c.s.bounce.TryGet(n); ok {
		return buf, nil
	}
	c.submit()
	return c.s.bounce.Get(context.Background(), n)
}

// submit gives the engine the ops planned since the last time.
func (c *readCall) submit() {
	ops, base := c.ops[c.sent:], c.sent
	if len(ops) == 0 {
		return
	}
	c.sent = len(c.ops)
	meta := c.meta
	c.s.eng.Submit(ops, func(i, _ int, err error) {
		m := &meta[base+i]
		if err != nil {
			err = c.s.ioError(&ops[i], c.reqs[m.req].Slots[m.sp.part], err)
		}
		c.ended(m, err)
	})
}

// ended books one op, whole or failed, and hashes the pieces it completed.
func (c *readCall) ended(m *readOp, err error) {
	r, st := &c.reqs[m.req], &c.state[m.req]
	if err != nil {
		st.set(err)
	}
	if m.buf != nil {
		if err == nil {
			unbounce(r.Dst, m.sp.off+m.direct, m.buf.Chunks()[0][:m.sp.n-m.direct])
		}
		m.buf.Release()
	}
	for p := m.sp.firstPiece(); p <= m.sp.lastPiece(); p++ {
		if st.covers[p].Add(-1) == 0 && c.verify && st.get() == nil {
			st.sums[p] = pieceSum(r.Dst, r.Len, p, r.Seed^r.Gen)
		}
	}
	if st.pending.Add(-1) == 0 {
		c.finish(m.req, c.verdict(r, st))
	}
}

// unbounce copies bounced bytes to their place in Dst.
func unbounce(dst [][]byte, off int64, from []byte) {
	for len(from) > 0 {
		n := copy(dst[off/ioengine.PieceSize][off%ioengine.PieceSize:], from)
		from, off = from[n:], off+int64(n)
	}
}

// verdict runs when every op of a request has ended.
func (c *readCall) verdict(r *ReadReq, st *readState) error {
	if err := st.get(); err != nil || !c.verify {
		return err
	}
	if got := combine(r.Len, st.sums, r.Seed^r.Gen); got != r.Sum {
		return fmt.Errorf("%s: slot %d, generation %d, %d bytes: %w (%016x, want %016x)",
			title(c.s.name), r.Slots[0], r.Gen, r.Len, ErrCorrupt, got, r.Sum)
	}
	return nil
}

func (c *readCall) finish(req int, err error) {
	c.done(req, err)
	if c.left.Add(-1) == 0 {
		c.s.life.leave()
	}
}
