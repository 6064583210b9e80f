// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/slab"
	"github.com/rawblockd/rawblockd/store"
)

// The wire's names for what a slot is are the slab's own.
func TestSlotStates(t *testing.T) {
	want := []slab.State{slab.Unknown, slab.Free, slab.Reserved, slab.Used, slab.Deleting, slab.Retired, slab.Quarantined}
	got := []slab.State{api.SlotUnknown, api.SlotFree, api.SlotReserved, api.SlotUsed, api.SlotDeleting, api.SlotRetired, api.SlotQuarantined}
	if d := cmp.Diff(want, got); d != "" || api.SlotPinned != store.MapPinned {
		t.Errorf("pinned is %#x, %s", api.SlotPinned, d)
	}
}

func TestSlabMap(t *testing.T) {
	r := newRig(t)
	c := r.unix()
	mustStore(t, c, 600_000, "a", "b") // three slots each
	pinned(t, c, "60000", "a")
	total := int(r.slab.Counts().Total)
	for name, client := range map[string]*http.Client{"unix": c, "admin": r.admin()} {
		a := do(t, client, "GET", "/v1/slabs/fast0/map", nil).ok(t)
		counts := map[byte]int{}
		for _, b := range a.body {
			counts[b]++
		}
		want := map[byte]int{api.SlotUsed | api.SlotPinned: 3, api.SlotUsed: 3, api.SlotFree: total - 6}
		if d := cmp.Diff(want, counts); d != "" || a.header.Get(api.HeaderSlots) != strconv.Itoa(total) || a.header.Get("Content-Type") != api.MediaOctets {
			t.Errorf("%s: %v %s", name, a.header, d)
		}
		for query, want := range map[string][]byte{
			"from=2&count=3":                      a.body[2:5],
			"count=1":                             a.body[:1],
			"from=" + strconv.Itoa(total-1):       a.body[total-1:],
			"from=" + strconv.Itoa(total):         {},
			"from=3":                              a.body[3:],
			"from=3&count=" + strconv.Itoa(1<<20): a.body[3:],
		} {
			part := do(t, client, "GET", "/v1/slabs/fast0/map?"+query, nil).ok(t)
			if !bytes.Equal(part.body, want) || part.header.Get(api.HeaderSlots) != strconv.Itoa(total) {
				t.Errorf("%s: got %d slots, want %d", query, len(part.body), len(want))
			}
		}
	}
	for query, want := range map[string][2]string{
		"from=-1": {"invalid_field", "from"}, "from=4294967296": {"invalid_field", "from"}, "from=" + strconv.Itoa(total+1): {"invalid_field", "from"},
		"count=0": {"invalid_field", "count"}, "count=1048577": {"invalid_field", "count"}, "slots=1": {"unknown_field", "slots"},
	} {
		do(t, c, "GET", "/v1/slabs/fast0/map?"+query, nil).want(t, 400, want[0], want[1])
	}
	do(t, c, "GET", "/v1/slabs/fast9/map", nil).want(t, 404, "unknown_slab", "slab")
	do(t, c, "GET", "/v1/slabs/%ff/map", nil).want(t, 404, "unknown_slab", "slab")
	do(t, c, "POST", "/v1/slabs/fast0/map", nil).want(t, 405, "method_not_allowed", "")
}

func TestDrain(t *testing.T) {
	log := &auditLog{}
	r := newRig(t, log.take)
	c := r.unix()
	mustStore(t, c, 100, "k")
	for range 2 { // a second time changes nothing and is no error
		got := decode[api.SlabStatus](t, do(t, c, "POST", "/v1/slabs/fast0/drain", nil))
		if got.Name != "fast0" || got.Health != "draining" || got.Reason == "" || got.Slots.Used != 1 {
			t.Errorf("got %+v", got)
		}
	}
	do(t, c, "GET", "/v1/kv/default/k", nil).ok(t)
	if a := do(t, c, "PUT", "/v1/kv/default/new", strings.NewReader("x")); a.code != 503 && a.code != 507 {
		t.Errorf("a store to a drained slab: got %d %s", a.code, a.body)
	}
	for range 2 {
		got := decode[api.SlabStatus](t, do(t, c, "POST", "/v1/slabs/fast0/resume", http.NoBody))
		if got.Health != "online" || got.Reason != "" {
			t.Errorf("got %+v", got)
		}
	}
	do(t, c, "PUT", "/v1/kv/default/new", strings.NewReader("x")).ok(t)
	log.want(t, "what=drain slab=fast0", "what=drain slab=fast0", "what=resume slab=fast0", "what=resume slab=fast0")
	for _, verb := range []string{"drain", "resume"} {
		path := "/v1/slabs/fast0/" + verb
		do(t, c, "POST", "/v1/slabs/fast9/"+verb, nil).want(t, 404, "unknown_slab", "slab")
		do(t, c, "POST", path+"?force=1", nil).want(t, 400, "unknown_field", "force")
		do(t, c, "POST", path, strings.NewReader(`{}`), "Content-Type", api.MediaJSON).want(t, 413, "body_too_large", "")
		do(t, c, "POST", path, strings.NewReader("x"), "Content-Type", "text/html").want(t, 415, "unsupported_media_type", "Content-Type")
		do(t, c, "GET", path, nil).want(t, 405, "method_not_allowed", "")
	}
	do(t, c, "POST", "/v1/slabs/fast0/erase", nil).want(t, 404, "not_found", "path")
	log.want(t)
}

// Slabs are for administrators, and not on the data listener.
func TestSlabRights(t *testing.T) {
	log := &auditLog{}
	r := newAuthRig(t, log.take)
	tcp, _ := r.tcp()
	for _, route := range []string{"POST /v1/slabs/fast0/drain", "POST /v1/slabs/fast0/resume", "POST /v1/slabs/fast0/scrub", "GET /v1/slabs/fast0/map", "GET /v1/slabs/fast9/map"} {
		method, path, _ := strings.Cut(route, " ")
		do(t, as(r.unix(), tokenA), method, path, nil).want(t, 403, "forbidden", "Authorization")
		do(t, as(r.admin(), tokenA), method, path, nil).want(t, 403, "forbidden", "Authorization")
		do(t, r.admin(), method, path, nil).want(t, 401, "unauthorized", "Authorization")
		do(t, as(tcp, tokenAdm), method, path, nil).want(t, 404, "not_found", "path")
	}
	if now := r.store.Status().Slabs[0]; now.Health != "online" || now.Scrub != nil {
		t.Errorf("got %+v, want the slab untouched", now)
	}
	do(t, as(r.admin(), tokenAdm), "POST", "/v1/slabs/fast0/drain", nil).ok(t)
	if got := log.String(); !strings.Contains(got, "what=drain who=operator slab=fast0") {
		t.Errorf("logged %s", got)
	}
}

func TestScrub(t *testing.T) {
	log := &auditLog{}
	r := newRig(t, log.take)
	c := r.unix()
	mustStore(t, c, 300_000, "a", "b")
	const path = "/v1/slabs/fast0/scrub"
	if v := decode[api.SlabsResponse](t, do(t, c, "GET", "/v1/slabs", nil)).Slabs[0]; v.Scrub != nil {
		t.Errorf("before the first: got %+v", v.Scrub)
	}
	// One whose reads hang is under way until they do not.
	release := r.dev.Hang(0, r.o.size)
	if v := decode[api.SlabStatus](t, do(t, c, "POST", path, nil)); v.Name != "fast0" || v.Scrub == nil || !v.Scrub.Running || v.Scrub.Total != v.Slots.Total || !v.Scrub.EndedAt.IsZero() {
		t.Errorf("got %+v", v.Scrub)
	}
	a := do(t, r.admin(), "POST", path, nil)
	a.want(t, 409, "scrubbing", "slab")
	if got := a.problem().Detail; got != `on slab "fast0"; its progress is in the slab's status` {
		t.Errorf("got %q", got)
	}
	log.want(t, "what=scrub slab=fast0")
	release()
	if s := scrubEnd(t, c).Scrub; s.Done != s.Total || s.Bad != 0 || s.EndedAt.IsZero() || s.Stopped != "" {
		t.Errorf("got %+v", s)
	}
	do(t, c, "POST", "/v1/slabs/fast9/scrub", nil).want(t, 404, "unknown_slab", "slab")
	do(t, c, "POST", path+"?deep=1", nil).want(t, 400, "unknown_field", "deep")
	do(t, c, "POST", path, strings.NewReader(`{}`), "Content-Type", api.MediaJSON).want(t, 413, "body_too_large", "")
	do(t, c, "GET", path, nil).want(t, 405, "method_not_allowed", "")
	log.want(t)
}
