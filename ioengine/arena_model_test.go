// SPDX-License-Identifier: Apache-2.0

package ioengine

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// step is one thing that happens to an arena: a request, a release or the
// cancellation of a waiter, the last two by their place in the line.
type step struct {
	what string
	n    int64
	who  int
}

var steps = rapid.Custom(func(t *rapid.T) step {
	return step{
		what: rapid.SampledFrom([]string{"get", "get", "try", "release", "release", "cancel"}).Draw(t, "what"),
		n: rapid.OneOf(
			rapid.Int64Range(0, 3*page),
			rapid.Int64Range(0, PieceSize),
			rapid.Int64Range(PieceSize, 4*PieceSize),
		).Draw(t, "n"),
		who: rapid.IntRange(0, 1<<20).Draw(t, "who"),
	}
})

// arenaModel is an arena with what must be true of it: who has memory, who
// waits in which order.
type arenaModel struct {
	t       *testing.T
	a       *Arena
	bufs    []*Buf
	waiting []modelWaiter
	owner   []*Buf // by page of the region
}

type modelWaiter struct {
	n   int64
	get getting
}

// TestArenaModel runs random steps and looks after each that the arena hands
// out no page twice, counts right, serves in order and strands nobody.
func TestArenaModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.Int64Range(4*PieceSize/page, 6*PieceSize/page).Draw(rt, "pages") * page
		plan := rapid.SliceOfN(steps, 1, 60).Draw(rt, "steps")
		// A failure inside the bubble must not unwind into rapid from there, so
		// it is carried out as a string.
		var fault string
		synctest.Test(t, func(t *testing.T) { fault = runArenaModel(t, limit, plan) })
		if fault != "" {
			rt.Fatal(fault)
		}
	})
}

func runArenaModel(t *testing.T, limit int64, plan []step) (fault string) {
	m := &arenaModel{t: t, a: newTestArena(t, limit)}
	m.owner = make([]*Buf, (limit+PieceSize-1)/PieceSize*piecePages)
	for i, s := range plan {
		if fault := m.run(s); fault != "" {
			m.drain()
			return fmt.Sprintf("step %d, %+v: %s", i, s, fault)
		}
	}
	return m.drain()
}

func (m *arenaModel) run(s step) (fault string) {
	switch s.what {
	case "get":
		m.waiting = append(m.waiting, modelWaiter{s.n, startGet(m.t, m.a, s.n)})
	case "try":
		buf, ok := m.a.TryGet(s.n)
		if ok && s.n > 0 && len(m.waiting) > 0 {
			fault = "TryGet overtook a waiter"
		}
		if ok {
			fault += m.own(buf, s.n)
		}
	case "release":
		if len(m.bufs) > 0 {
			m.release(s.who % len(m.bufs))
		}
	case "cancel":
		if len(m.waiting) > 0 {
			fault = m.cancelWaiter(s.who % len(m.waiting))
		}
	}
	return fault + m.settle()
}

// own books a buffer and finds pages that two buffers have.
func (m *arenaModel) own(buf *Buf, n int64) (fault string) {
	m.bufs = append(m.bufs, buf)
	got := int64(0)
	for i, chunk := range buf.Chunks() {
		first := int(buf.pages[i])
		got += int64(len(chunk))
		for p := first; p < first+len(chunk)/page; p++ {
			if m.owner[p] != nil {
				fault += fmt.Sprintf("page %d was handed out twice; ", p)
			}
			m.owner[p] = buf
		}
	}
	if want := (n + page - 1) / page * page; got != want {
		fault += fmt.Sprintf("%d bytes handed out, want %d; ", got, want)
	}
	return fault
}

func (m *arenaModel) release(i int) {
	buf := m.bufs[i]
	m.bufs = slices.Delete(m.bufs, i, i+1)
	for p, owner := range m.owner {
		if owner == buf {
			m.owner[p] = nil
		}
	}
	buf.Release()
}

func (m *arenaModel) cancelWaiter(i int) (fault string) {
	w := m.waiting[i]
	m.waiting = slices.Delete(m.waiting, i, i+1)
	w.get.cancel()
	if buf := <-w.get.result; buf != nil {
		fault = "a waiter that was cancelled got memory"
		buf.Release()
	}
	return fault
}

// settle takes in what was served, and says if it was not the head of the line
// or if the head was left waiting although it would fit.
func (m *arenaModel) settle() (fault string) {
	synctest.Wait()
	blocked := false
	m.waiting = slices.DeleteFunc(m.waiting, func(w modelWaiter) bool {
		select {
		case buf := <-w.get.result:
			if blocked && w.n > 0 {
				fault += fmt.Sprintf("a request of %d overtook an older one; ", w.n)
			}
			fault += m.own(buf, w.n)
			return true
		default:
			blocked = true
			return false
		}
	})
	inUse := int64(0)
	for _, owner := range m.owner {
		if owner != nil {
			inUse += page
		}
	}
	if got := m.a.InUse(); got != inUse {
		fault += fmt.Sprintf("in use: got %d, want %d; ", got, inUse)
	}
	if inUse > m.a.Cap() {
		fault += fmt.Sprintf("%d bytes in use of %d; ", inUse, m.a.Cap())
	}
	if got := m.a.Waiting(); got != len(m.waiting) {
		fault += fmt.Sprintf("waiting: got %d, want %d; ", got, len(m.waiting))
	}
	return fault + m.stranded()
}

// stranded finds a head of the line that would fit.
func (m *arenaModel) stranded() (fault string) {
	if len(m.waiting) == 0 {
		return ""
	}
	n := m.waiting[0].n
	pieces, tail := int(n/PieceSize), int((n%PieceSize+page-1)/page)
	m.a.mu.Lock()
	defer m.a.mu.Unlock()
	if m.a.inUse+n <= m.a.cap && m.a.buddy.fits(pieces, tail) {
		return fmt.Sprintf("%d bytes are waited for, and there is room; ", n)
	}
	return ""
}

// drain releases everything until nobody waits; the arena must then be whole.
func (m *arenaModel) drain() (fault string) {
	for len(m.bufs) > 0 && fault == "" {
		m.release(0)
		fault = m.settle()
	}
	if len(m.waiting) > 0 {
		fault += fmt.Sprintf("%d requests wait for an idle arena; ", len(m.waiting))
	}
	for _, w := range m.waiting {
		w.get.cancel()
	}
	for len(m.bufs) > 0 {
		m.release(0)
	}
	if fault == "" {
		isWhole(m.t, m.a)
	}
	return fault
}
