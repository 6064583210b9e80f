// SPDX-License-Identifier: Apache-2.0

package slab

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/rawblockd/rawblockd/internal/mutant"
	"github.com/rawblockd/rawblockd/ioengine"
)

// WriteReq writes one payload into slots that the caller has reserved. Src has the
// shape of ReadReq.Dst; bytes beyond Len are not written.
type WriteReq struct {
	Slots               []uint32
	Len                 int64 // at least 1
	Gen, Seed           uint64
	Namespace, Key      string
	StoredAt, ExpiresAt int64 // unix ms
	Src                 [][]byte
}

// hashAhead is how much is hashed before the first of it goes to the engine: long
// enough to keep submissions few, short enough that the device does not wait.
const hashAhead = 8 << 20

// writeCall is one Write under way. Unless a comment says otherwise a field belongs
// to the calling goroutine.
type writeCall struct {
	s     *Slab
	reqs  []WriteReq
	done  func(int, uint64, error)
	left  atomic.Int64 // requests without an answer
	state []writeState

	ops    []ioengine.Op // but the head ops, which are in state
	meta   []writeOp
	vecs   [][]byte // what the Vec of all ops are cut from
	sent   int      // ops given to the engine
	ahead  int64    // bytes hashed for ops not given to the engine
	unhash []int    // requests of many ops, planned, not hashed
}

// writeState is one request.
type writeState struct {
	failure
	// pending counts the ops before the head op, and one for the caller until it
	// has planned and hashed everything. Who brings it to 0 goes on with the head.
	pending atomic.Int32
	sum     uint64         // set before the last decrement of pending
	head    [1]ioengine.Op // header and first piece, written last
	headOp  writeOp
}

// writeOp belongs to the op of the same index.
type writeOp struct {
	req  int
	slot uint32
	buf  *ioengine.Buf // header, padding, misaligned bytes; released when the op ends
}

// Write writes payloads and calls done once for each request with its checksum,
// possibly before Write returns. Nothing is durable before a Flush that begins
// after done. It panics if a slot is not reserved, because then somebody else's
// bytes would be lost.
//
// Payloads of one op are hashed and handed to the engine in runs of 8 MiB. Of larger ones
// everything but the head op goes to the engine first and is hashed meanwhile; the
// head op follows when all the rest is written. When an op fails the request waits
// for its others, and the head op is left out.
func (s *Slab) Write(reqs []WriteReq, done func(i int, sum uint64, err error)) {
	if len(reqs) == 0 {
		return
	}
	if !mutant.On(mutant.H9) {
		s.states.mustWritable(reqs)
	}
	if err := s.beginWrite(); err != nil {
		for i := range reqs {
			done(i, 0, err)
		}
		return
	}
	c := &writeCall{s: s, reqs: reqs, done: done, state: make([]writeState, len(reqs))}
	c.left.Store(int64(len(reqs)))
	ok := c.prepare()
	for i := range reqs {
		if ok[i] && !s.single(reqs[i].Len) {
			c.planMany(i)
		}
	}
	c.submit()
	for i := range reqs {
		if ok[i] && s.single(reqs[i].Len) {
			c.planSingle(i)
		}
	}
	c.handOver()
}

// beginWrite enters the slab unless it takes no writes.
func (s *Slab) beginWrite() error {
	if err := s.enter(); err != nil {
		return err
	}
	if err := s.readOnlyErr(); err != nil {
		s.life.leave()
		return err
	}
	return nil
}

// single reports whether a payload and its header are one op.
func (s *Slab) single(length int64) bool {
	return length <= min(ioengine.PieceSize, s.geo.SlotSize)
}

// prepare checks all requests and makes room for their ops. It returns which are
// well; the others are answered.
func (c *writeCall) prepare() []bool {
	ok := make([]bool, len(c.reqs))
	ops, parts := 0, 0
	for i := range c.reqs {
		r := &c.reqs[i]
		if ok[i] = c.check(i); ok[i] {
			split, head := c.cuts(r)
			ops, parts = ops+c.s.countSpans(r.Len, split, head), parts+len(r.Src)
		}
	}
	c.ops, c.meta = make([]ioengine.Op, 0, ops), make([]writeOp, 0, ops)
	c.vecs = make([][]byte, 0, parts+3*ops) // an op touches whole parts, and a part of one at most, a header and a bounced page
	return ok
}

// cuts returns how a payload is split and where its head op ends.
func (c *writeCall) cuts(r *WriteReq) (split, head int64) {
	head = min(ioengine.PieceSize, c.s.geo.SlotSize)
	if !c.s.aligned(r.Src) {
		return ioengine.PieceSize, head // bounds bounce memory
	}
	return c.s.ioSize, head
}

// check answers a request that cannot be right.
func (c *writeCall) check(i int) bool {
	r := &c.reqs[i]
	err := c.s.checkShape(r.Slots, r.Len, r.Src)
	if err == nil {
		err = checkHeaderText(r.Namespace, r.Key)
	}
	if err != nil {
		c.finish(i, fmt.Errorf("%s: write: %w", title(c.s.name), err))
		return false
	}
	return true
}

// planSingle hashes a payload and plans its one op.
func (c *writeCall) planSingle(i int) {
	r, st := &c.reqs[i], &c.state[i]
	sp := span{n: r.Len}
	op, m, err := c.op(c.s.bounce, i, sp, true)
	if err != nil {
		c.finish(i, err)
		return
	}
	st.sum = Sum(r.Src, r.Len, r.Seed^r.Gen)
	c.fillHeader(m.buf, i, 0, st.sum)
	st.headOp = m
	c.ops, c.meta = append(c.ops, op), append(c.meta, m)
	if c.ahead += r.Len; c.ahead >= hashAhead {
		c.submit()
	}
}

// planMany plans the ops of a larger payload and keeps its head op for later.
func (c *writeCall) planMany(i int) {
	r, st := &c.reqs[i], &c.state[i]
	split, headLen := c.cuts(r)
	st.pending.Store(int32(c.s.countSpans(r.Len, split, headLen))) // less the head, and one for us
	c.s.spans(r.Len, split, headLen, func(sp span) {
		arena, first := c.s.bounce, sp.off%c.s.geo.SlotSize == 0
		if sp.off == 0 {
			arena = c.s.heads
		}
		op, m, err := c.op(arena, i, sp, first)
		switch {
		case err != nil && sp.off == 0:
			st.set(err) // the head op will be left out
		case err != nil:
			c.ended(&m, err)
		case sp.off == 0:
			st.head[0], st.headOp = op, m
		default:
			if first {
				c.fillHeader(m.buf, i, sp.part, 0)
			}
			c.ops, c.meta = append(c.ops, op), append(c.meta, m)
		}
	})
	c.unhash = append(c.unhash, i)
}

// op makes the op of one span. Its bounce memory, if it needs any, is in one piece:
// bytes that are bounced, padded with zeros, and then the header.
func (c *writeCall) op(arena *ioengine.Arena, i int, sp span, withHeader bool) (ioengine.Op, writeOp, error) {
	r := &c.reqs[i]
	m := writeOp{req: i, slot: r.Slots[sp.part]}
	op := ioengine.Op{Dir: ioengine.Write, Off: c.s.payloadAt(r.Slots, sp), Tag: r.Gen}
	direct := int64(0)
	if c.s.aligned(r.Src) {
		direct = roundDown(sp.n, block)
	}
	bounced := roundUp(sp.n-direct, block)
	need := bounced
	if withHeader {
		need += HeaderSize
	}
	if need > 0 {
		var err error
		if m.buf, err = c.memory(arena, need); err != nil {
			return op, m, fmt.Errorf("%s: bounce memory for a write: %w", title(c.s.name), err)
		}
	}
	from := len(c.vecs)
	if withHeader {
		op.Off -= HeaderSize
		c.vecs = append(c.vecs, headerPage(m.buf))
	}
	c.vecs = appendParts(c.vecs, r.Src, sp.off, direct)
	if bounced > 0 {
		page := m.buf.Chunks()[0][:bounced]
		bounce(page, r.Src, sp.off+direct, sp.n-direct)
		c.vecs = append(c.vecs, page)
	}
	op.Vec = c.vecs[from:len(c.vecs):len(c.vecs)]
	return op, m, nil
}

// headerPage is the last page of an op's bounce memory.
func headerPage(buf *ioengine.Buf) []byte {
	last := buf.Chunks()[len(buf.Chunks())-1]
	return last[len(last)-HeaderSize:]
}

// bounce copies n payload bytes from off and pads with zeros: what lay in the
// caller's memory behind them may be another tenant's.
func bounce(page []byte, src [][]byte, off, n int64) {
	clear(page[n:])
	for page = page[:n]; len(page) > 0; {
		k := copy(page, src[off/ioengine.PieceSize][off%ioengine.PieceSize:])
		page, off = page[k:], off+int64(k)
	}
}

// fillHeader writes the header of one part into its op's bounce memory.
func (c *writeCall) fillHeader(buf *ioengine.Buf, i, part int, sum uint64) {
	r := &c.reqs[i]
	err := EncodeHeader(headerPage(buf), &Header{
		Incarnation: c.s.geo.Incarnation, Slot: r.Slots[part], Gen: r.Gen,
		Part: uint32(part), Parts: uint32(len(r.Slots)), Namespace: r.Namespace, Key: r.Key,
		Len: r.Len, Sum: sum, StoredAt: r.StoredAt, ExpiresAt: r.ExpiresAt,
	})
	if err != nil {
		panic(fmt.Sprintf("slab: header that was checked does not encode: %v", err))
	}
}

// memory gets bounce memory. Before it waits it hands over everything this call has
// begun, so that whoever waits holds nothing another one waits for.
func (c *writeCall) memory(arena *ioengine.Arena, n int64) (*ioengine.Buf, error) {
	if buf, ok := arena.TryGet(n); ok {
		return buf, nil
	}
	c.handOver()
	return arena.Get(context.Background(), n)
}

// handOver submits what is planned and hashes what is not yet hashed.
func (c *writeCall) handOver() {
	c.submit()
	for _, i := range c.unhash {
		r, st := &c.reqs[i], &c.state[i]
		st.sum = Sum(r.Src, r.Len, r.Seed^r.Gen)
		c.arrived(i)
	}
	c.unhash = c.unhash[:0]
}

// submit gives the engine the ops planned since the last time.
func (c *writeCall) submit() {
	ops, meta := c.ops[c.sent:], c.meta[c.sent:]
	if len(ops) == 0 {
		return
	}
	c.sent, c.ahead = len(c.ops), 0
	c.s.eng.Submit(ops, func(i, _ int, err error) {
		if err != nil {
			err = c.s.ioError(&ops[i], meta[i].slot, err)
		}
		c.ended(&meta[i], err)
	})
}

// ended books one op, whole or failed.
func (c *writeCall) ended(m *writeOp, err error) {
	if m.buf != nil {
		m.buf.Release()
	}
	if err != nil {
		c.state[m.req].set(err)
	}
	if c.s.single(c.reqs[m.req].Len) {
		c.finish(m.req, c.state[m.req].get())
		return
	}
	c.arrived(m.req)
}

// arrived counts down to the head op and submits it.
func (c *writeCall) arrived(req int) {
	st := &c.state[req]
	if st.pending.Add(-1) > 0 {
		return
	}
	if err := st.get(); err != nil {
		if st.headOp.buf != nil {
			st.headOp.buf.Release()
		}
		c.finish(req, err)
		return
	}
	c.fillHeader(st.headOp.buf, req, 0, st.sum)
	c.s.eng.Submit(st.head[:], func(_, _ int, err error) {
		st.headOp.buf.Release()
		if err != nil {
			err = c.s.ioError(&st.head[0], st.headOp.slot, err)
		}
		c.finish(req, err)
	})
}

func (c *writeCall) finish(req int, err error) {
	sum := c.state[req].sum
	if err != nil {
		sum = 0
	}
	c.done(req, sum, err)
	if c.left.Add(-1) == 0 {
		c.s.life.leave()
	}
}
