// SPDX-License-Identifier: Apache-2.0

package killtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/client"
)

const (
	writers       = 4
	keysPerWriter = 16
	maxPayload    = 700 << 10
)

// entry is what the journal knows of one key: the state that was acknowledged
// last, and the one that an unanswered operation may have put in its place.
// Version 0 is "not stored".
type entry struct {
	key      string
	version  int
	maybe    int
	inFlight bool
	latest   int // highest version ever sent
}

// payload returns the bytes of one version of a key.
func payload(key string, version int) []byte {
	var seed [32]byte
	copy(seed[:], key)
	binary.LittleEndian.PutUint64(seed[24:], uint64(version))
	src := rand.NewChaCha8(seed)
	b := make([]byte, 1+src.Uint64()%maxPayload)
	_, _ = src.Read(b) // never fails
	return b
}

// writer owns some keys and works on them with batches.
type writer struct {
	client  *client.Client
	rng     *rand.Rand
	entries []*entry
	acked   *atomic.Int64
}

// run sends batches until the daemon is gone, and calls after behind each.
func (w *writer) run(ctx context.Context, after func()) {
	for {
		batch := slices.Clone(w.entries)
		w.rng.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
		batch = batch[:1+w.rng.IntN(5)]
		op := w.store
		if w.rng.IntN(3) == 0 {
			op = w.remove
		}
		if err := op(ctx, batch); err != nil {
			return // killed: what was in flight stays "maybe"
		}
		after()
	}
}

func (w *writer) store(ctx context.Context, batch []*entry) error {
	for _, e := range batch {
		e.latest++
		e.maybe, e.inFlight = e.latest, true
	}
	items := func(yield func(client.Item) bool) {
		for _, e := range batch {
			b := payload(e.key, e.maybe)
			if !yield(client.Item{Key: e.key, Bytes: int64(len(b)), Body: bytes.NewReader(b)}) {
				return
			}
		}
	}
	r, err := w.client.Store(ctx, items, client.StoreOptions{Overwrite: true})
	if err != nil {
		return err
	}
	for i, e := range batch {
		if r.Results[i].Status == api.StatusOK {
			e.version = e.maybe
			w.acked.Add(1)
		}
		e.inFlight = false
	}
	return nil
}

func (w *writer) remove(ctx context.Context, batch []*entry) error {
	keys := make([]string, len(batch))
	for i, e := range batch {
		keys[i] = e.key
		e.maybe, e.inFlight = 0, true
	}
	r, err := w.client.Remove(ctx, keys, false)
	if err != nil {
		return err
	}
	for i, e := range batch {
		if s := r.Results[i].Status; s == api.StatusOK || s == api.StatusMissing {
			e.version = 0
			w.acked.Add(1)
		}
		e.inFlight = false
	}
	return nil
}

// counts is the closing line.
type counts struct {
	acknowledged, survived, lost, corrupt, resurrected, phantom, states int64
}

func (c *counts) faults() int64 {
	return c.lost + c.corrupt + c.resurrected + c.phantom + c.states
}

func (c *counts) String() string {
	return fmt.Sprintf("acknowledged=%d survived=%d lost=%d corrupt=%d resurrected=%d phantom=%d states=%d",
		c.acknowledged, c.survived, c.lost, c.corrupt, c.resurrected, c.phantom, c.states)
}

// check loads the writer's keys and compares them with the journal, which then
// takes what was found for the state.
func (w *writer) check(ctx context.Context, c *counts, fault func(format string, args ...any)) error {
	keys := make([]string, len(w.entries))
	for i, e := range w.entries {
		keys[i] = e.key
	}
	i := 0
	for l, err := range w.client.Load(ctx, keys) {
		if err != nil {
			return fmt.Errorf("load after a kill: %w", err)
		}
		e := w.entries[i]
		i++
		found := 0
		switch l.Status {
		case api.StatusOK:
			b, err := io.ReadAll(l.Body)
			if err != nil {
				return fmt.Errorf("load after a kill: %w", err)
			}
			if found = versionOf(e, b); found < 0 {
				c.corrupt++
				fault("%s: %d bytes of no version up to %d", e.key, len(b), e.latest)
			}
		case api.StatusMissing:
		default:
			c.corrupt++
			fault("%s: load answered %s", e.key, l.Status)
		}
		e.judge(found, c, fault)
		e.version, e.inFlight = max(found, 0), false
	}
	return nil
}

// versionOf returns the version whose payload b is, or −1.
func versionOf(e *entry, b []byte) int {
	for v := e.latest; v > 0; v-- {
		if bytes.Equal(b, payload(e.key, v)) {
			return v
		}
	}
	return -1
}

func (e *entry) judge(found int, c *counts, fault func(format string, args ...any)) {
	switch {
	case found < 0:
	case found == e.version:
		if found > 0 {
			c.survived++
		}
	case e.inFlight && found == e.maybe:
	case found == 0:
		c.lost++
		fault("%s: version %d was acknowledged and is lost", e.key, e.version)
	case found < e.latest:
		c.resurrected++
		fault("%s: version %d came back after version %d (0: a remove) was acknowledged", e.key, found, e.version)
	default:
		c.phantom++
		fault("%s: version %d is there and was refused", e.key, found)
	}
}
