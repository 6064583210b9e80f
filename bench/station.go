// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/rawblockd/rawblockd/ioengine"
)

// MakeEngine starts an engine of some kind on dev with so many ops at once. memory is
// the regions that its ops lie in. note says what is not as the kind's name promises.
type MakeEngine func(dev *ioengine.File, depth int, memory [][]byte) (e ioengine.Engine, note string, err error)

// station is an engine, and the memory of the ops it is given.
type station struct {
	engine ioengine.Engine
	note   string
	arena  *ioengine.Arena // as a daemon's: large pages
	buf    *ioengine.Buf   // all of it
	spare  [][]byte        // of opSize each, not yet given to a slot
	opSize int64
	area   int64 // bytes from the start of the device that are used
	rng    *rand.Rand
}

// opOf returns the bytes of one op of a payload, and how many of them it has: payloads
// are moved a MiB at a time, as a slab moves them.
func opOf(payload int64) (opSize int64, ops int) {
	opSize = min(payload, ioengine.PieceSize)
	return opSize, int((payload + opSize - 1) / opSize)
}

func perKeyOf(payload int64) int {
	_, n := opOf(payload)
	return n
}

// station starts an engine with memory for so many payloads.
func (r *run) station(ctx context.Context, engine string, depth int, payload int64, payloads int) (_ *station, err error) {
	opSize, perKey := opOf(payload)
	s := &station{opSize: opSize, area: r.plan.Area, rng: rand.New(rand.NewPCG(r.plan.Seed, r.turn()))}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if err := s.alloc(ctx, payloads*perKey, r.plan.Seed); err != nil {
		return nil, err
	}
	s.engine, s.note, err = r.plan.Engines[engine](r.dev, depth, s.arena.Memory())
	if err != nil {
		return nil, fmt.Errorf("engine %s: %w", engine, err)
	}
	return s, nil
}

// alloc takes memory for so many ops and fills it with what no device can compress.
func (s *station) alloc(ctx context.Context, ops int, seed uint64) error {
	perChunk := int(ioengine.PieceSize / s.opSize)
	need := int64((ops+perChunk-1)/perChunk) * ioengine.PieceSize
	var err error
	if s.arena, err = ioengine.NewArena(need); err != nil {
		return err
	}
	if s.buf, err = s.arena.Get(ctx, need); err != nil {
		return err
	}
	noise := rand.NewChaCha8([32]byte{byte(seed)})
	for _, chunk := range s.buf.Chunks() {
		_, _ = noise.Read(chunk) // never fails
		for ; int64(len(chunk)) >= s.opSize; chunk = chunk[s.opSize:] {
			s.spare = append(s.spare, chunk[:s.opSize:s.opSize])
		}
	}
	return nil
}

// slot returns a slot of so many payloads; loads is the probability that it reads.
func (s *station) slot(payload int64, keys int, loads float64, waits bool) *slot {
	_, perKey := opOf(payload)
	sl := &slot{
		keys: keys, loads: loads, waits: waits, ops: make([]ioengine.Op, keys*perKey),
		payload: payload, area: s.area, spread: rand.New(rand.NewPCG(s.rng.Uint64(), s.rng.Uint64())),
	}
	for i := range sl.ops {
		n := min(s.opSize, payload)
		if rest := payload % s.opSize; i%perKey == perKey-1 && rest > 0 {
			n = rest
		}
		sl.ops[i].Vec = [][]byte{s.spare[0][:n]}
		s.spare = s.spare[1:]
	}
	return sl
}

func (s *station) close() error {
	var err error
	if s.engine != nil {
		err = s.engine.Close()
	}
	if s.buf != nil { // nothing is under way any more
		s.buf.Release()
	}
	if s.arena != nil {
		err = errors.Join(err, s.arena.Close())
	}
	return err
}
