// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/rawblockd/rawblockd/api"
)

// Every key that is not simply there or not there is answered with a sentence.
func TestKeyErrors(t *testing.T) {
	r := newRig(t)
	c := r.unix()
	keys := []string{"a", "b", "c", "d", "e"}
	mustStore(t, c, 8<<20, keys...) // 4 of 5 are half of the slab
	const bad = `"", "\ud800", "a\u0000b"`
	body := `{"namespace":"default","keys":["a","none",` + bad + `]}`
	var got struct{ Results []api.KeyResult }
	want := []string{
		"", "", "a key is 1 to 1024 bytes of valid UTF-8 without control characters: the key is empty, not Unicode, or far too long",
		"a key is 1 to 1024 bytes of valid UTF-8 without control characters: the key is empty, not Unicode, or far too long",
		"a key is 1 to 1024 bytes of valid UTF-8 without control characters: the key holds a control character",
	}
	for _, op := range []string{"lookup", "remove", "pin"} {
		got.Results = nil
		post(t, c, "/v1/batch/"+op, body, &got)
		for i, k := range got.Results {
			if k.Error != want[i] {
				t.Errorf("%s, key %d: got %+v, want %q", op, i, k, want[i])
			}
		}
		if op == "remove" {
			mustStore(t, c, 8<<20, "a")
		}
	}
	fs, _ := load(t, c, "none", "", "\xff", "a\x00b")
	for i, f := range fs {
		if f.Error != want[i+1] {
			t.Errorf("load, key %d: got %+v, want %q", i, f, want[i+1])
		}
	}
	for op, more := range map[string]string{"pin": "", "lookup": `,"lease":{}`} {
		got.Results = nil
		post(t, c, "/v1/batch/"+op, `{"namespace":"default","keys":`+quoted(keys)+more+`}`, &got)
		k := got.Results[4]
		if k.Status != api.StatusBusy || !strings.Contains(k.Error, "leases.max_pinned") {
			t.Errorf("%s: got %+v", op, k)
		}
	}
}

// What cannot be done says what there is and what would help.
func TestDetails(t *testing.T) {
	r := newRig(t)
	c := r.unix()
	for path, want := range map[string]string{
		"/v1/kv/zz/k":             `"zz"; configured: "default", "other"`,
		"/v1/kv/zz":               `"zz"; configured: "default", "other"`,
		"/v1/kv/default/a/b":      `"/v1/kv/default/a/b"; write / in a key as %2F: /v1/kv/default/a%2Fb`,
		"/v1/kv/default/a%2F/b/c": `"/v1/kv/default/a%2F/b/c"; write / in a key as %2F: /v1/kv/default/a%2F%2Fb%2Fc`,
		"/v1/nothing/default/a/b": `"/v1/nothing/default/a/b"`,
		"/v1/leases/a/b":          `"/v1/leases/a/b"`,
	} {
		if got := do(t, c, "GET", path, nil).problem(); got.Status != 404 || got.Detail != want {
			t.Errorf("%s: got %d %q, want %q", path, got.Status, got.Detail, want)
		}
	}
	got := post(t, c, "/v1/batch/unpin", `{"namespace":"default","lease":"x"}`, nil).problem()
	if want := `unknown lease (lease): "x" in namespace "default": it has ended or never was`; got.Error() != want {
		t.Errorf("got %q, want %q", got.Error(), want)
	}
	for i := 0; ; i++ {
		a := do(t, c, "PUT", fmt.Sprint("/v1/kv/default/", i), bytes.NewReader(data("x", 8<<20)))
		if a.code == http.StatusOK {
			continue
		}
		a.want(t, 507, "no_space", "")
		for _, want := range []string{`"fast0"`, "needs 32", "remove keys: this release does not evict"} {
			if got := a.problem().Detail; !strings.Contains(got, want) {
				t.Errorf("got %q, want %q in it", got, want)
			}
		}
		break
	}
	var stored api.StoreResponse
	must(t, json.Unmarshal(storeFrames(t, c, "namespace=default", frames("k", data("k", 8<<20))).ok(t).body, &stored))
	if got := stored.Results[0]; got.Status != api.StatusNoSpace || !strings.Contains(got.Error, "remove keys") {
		t.Errorf("got %+v", got)
	}
}

// Many namespaces are not listed in a refusal.
func TestUnknownNamespaceOfMany(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.spaces = []string{"3", "4", "5", "6", "7", "8", "9"} })
	if got := do(t, r.unix(), "GET", "/v1/kv/zz/k", nil).problem().Detail; got != `"zz"; /v1/info lists those there are` {
		t.Errorf("got %q", got)
	}
}

// gate is a file system whose syncs wait while it is shut.
type gate struct {
	mu sync.Mutex
	// +checklocks:mu
	shut chan struct{} // nil: open
}

func (g *gate) close() (open func()) {
	shut := make(chan struct{})
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = shut
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.shut = nil
		close(shut)
	})
}

func (g *gate) pass(op errorfs.Op) error {
	switch op.Kind {
	case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
	default:
		return nil
	}
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut != nil {
		<-shut
	}
	return nil
}

// A deadline is told in words: how long it was, and what became of the change.
func TestDeadlineInWords(t *testing.T) {
	g := &gate{}
	gated := func(o *rigOptions) { o.metaFS = errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(g.pass)) }
	paced(t, time.Minute, func(r *rig, dial func() net.Conn) { deadlineInWords(t, r, g, dial) }, gated)
}

func deadlineInWords(t *testing.T, r *rig, g *gate, dial func() net.Conn) {
	c := dialing(t, dial)
	mustStore(t, c, 100, "k")
	open := g.close()
	defer open()
	const unknown = "not finished within 20 ms; the outcome is unknown: look the key up"
	for request, want := range map[string]string{
		"PUT /v1/kv/default/new":  unknown,
		"DELETE /v1/kv/default/k": unknown,
	} {
		method, path, _ := strings.Cut(request, " ")
		var body io.Reader
		if method == "PUT" {
			body = strings.NewReader("x")
		}
		a := do(t, c, method, path+"?deadline_ms=20", body)
		a.want(t, 504, "deadline", "")
		if got := a.problem().Detail; got != want {
			t.Errorf("%s: got %q, want %q", request, got, want)
		}
	}
	open()
	mustStore(t, c, 100, "last") // what was under way has ended
	release := r.dev.Hang(0, r.o.size)
	defer release()
	a := do(t, c, "PUT", "/v1/kv/default/hangs?deadline_ms=20", strings.NewReader("x"))
	a.want(t, 504, "deadline", "")
	if got := a.problem().Detail; got != "not finished within 20 ms; nothing was stored" {
		t.Errorf("PUT: got %q", got)
	}
	a = do(t, c, "GET", "/v1/kv/default/last?deadline_ms=20", nil)
	if got := a.problem().Detail; a.code != 504 || got != "not finished within 20 ms" {
		t.Errorf("GET: got %d %q", a.code, got)
	}
	var stored api.StoreResponse
	must(t, json.Unmarshal(storeFrames(t, c, "namespace=default&deadline_ms=20", frames("hangs too", []byte("x"))).ok(t).body, &stored))
	if got := stored.Results[0]; got.Error != "not finished within 20 ms; the key was not stored" {
		t.Errorf("store: got %+v", got)
	}
	a = do(t, c, "POST", "/v1/batch/load", strings.NewReader(`{"namespace":"default","keys":["last"],"deadline_ms":20}`), "Content-Type", api.MediaJSON)
	if got := string(a.ok(t).body); !strings.Contains(got, `"error":"not finished within 20 ms"`) {
		t.Errorf("load: got %s", got)
	}
}
