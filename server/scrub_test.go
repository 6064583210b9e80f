// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/ioengine"
)

// slabNow is fast0 as /v1/slabs has it.
func slabNow(t *testing.T, c *http.Client) api.SlabStatus {
	t.Helper()
	return decode[api.SlabsResponse](t, do(t, c, "GET", "/v1/slabs", nil)).Slabs[0]
}

// scrubEnd waits for the end of a scrub and returns how the slab is then.
func scrubEnd(t *testing.T, c *http.Client) api.SlabStatus {
	t.Helper()
	late := time.After(20 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		s := slabNow(t, c)
		if s.Scrub != nil && !s.Scrub.Running {
			return s
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("the scrub does not end: %+v", s.Scrub)
		}
	}
}

// place returns where the payload of a key begins on the device.
func (r *rig) place(t *testing.T, c *http.Client, key string) int64 {
	t.Helper()
	e := decode[api.Explanation](t, do(t, c, "GET", "/v1/explain/default/"+key, nil))
	l := r.slab.Label()
	return l.DataOffset + int64(*e.Slot)*l.Stride + l.HeaderZone
}

// What a scrub found bad is gone and its slots are out of use; the rest stays, and
// the status says how it was, also on the admin listener.
func TestScrubFinds(t *testing.T) {
	r := newRig(t)
	c, admin := r.unix(), r.admin()
	mustStore(t, c, 300_000, "a", "b") // two slots each
	mustStore(t, c, 100, "c")
	r.dev.FlipBit(r.place(t, c, "b") + 1000)
	release := r.dev.Hang(0, r.o.size)
	do(t, admin, "POST", "/v1/slabs/fast0/scrub", http.NoBody).ok(t)
	if st := decode[api.StatusReport](t, do(t, admin, "GET", "/v1/status", nil)).Slabs[0].Scrub; st == nil || !st.Running {
		t.Errorf("in the status while it runs: got %+v", st)
	}
	release()
	s := scrubEnd(t, c)
	if at := s.Scrub.EndedAt; at.IsZero() || at.Location() != time.UTC || time.Since(at) > time.Hour {
		t.Errorf("ended at %v", at)
	}
	s.Scrub.EndedAt = time.Time{}
	total := r.slab.SlotCount()
	if *s.Scrub != (api.ScrubStatus{Done: total, Total: total, Bad: 1}) || s.Slots.Quarantined != 2 || s.Slots.Used != 3 {
		t.Errorf("ended: got %+v and slots %+v", s.Scrub, s.Slots)
	}
	if e := decode[api.Explanation](t, do(t, c, "GET", "/v1/explain/default/b", nil)); e.Status != api.StatusMissing || e.Reason != "corrupt" {
		t.Errorf("got %+v", e)
	}
	do(t, c, "GET", "/v1/kv/default/a", nil).ok(t)
	do(t, c, "GET", "/v1/kv/default/c", nil).ok(t)
}

// A slab that is out of service is not scrubbed, and that leaves no audit line.
func TestScrubOutOfService(t *testing.T) {
	log := &auditLog{}
	r := newRig(t, log.take)
	c := r.unix()
	mustStore(t, c, 100, "k")
	const path = "/v1/slabs/fast0/scrub"
	do(t, c, "POST", path, strings.NewReader("x"), "Content-Type", "text/html").want(t, 415, "unsupported_media_type", "Content-Type")
	r.dev.FailRange(ioengine.Read, 0, r.o.size, syscall.ENODEV)
	do(t, c, "GET", "/v1/kv/default/k", nil)
	a := do(t, c, "POST", path, nil)
	a.want(t, 503, "unavailable", "")
	if d := a.problem().Detail; !strings.HasPrefix(d, `the slab cannot be scrubbed: slab "fast0" is offline: its device is gone: `) || a.header.Get("Retry-After") == "" {
		t.Errorf("got %q and %v", d, a.header)
	}
	if s := slabNow(t, c); s.Scrub != nil {
		t.Errorf("refused, and yet there is %+v", s.Scrub)
	}
	log.want(t)
	r.dev.Heal()
}

// A scrub that the slab's end stops says why.
func TestScrubStopped(t *testing.T) {
	r := newRig(t)
	c := r.unix()
	mustStore(t, c, 100, "k")
	r.dev.FailRange(ioengine.Read, 0, r.o.size, syscall.ENODEV)
	do(t, c, "POST", "/v1/slabs/fast0/scrub", nil).ok(t)
	if p := scrubEnd(t, c).Scrub; p.Done == p.Total || p.Bad != 0 || !strings.Contains(p.Stopped, "its device is gone") {
		t.Errorf("got %+v", p)
	}
	r.dev.Heal()
}
