// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/rawblockd/rawblockd/api"
)

// What went wrong with a key is told to administrators with the place on the
// device, and to tenants without it.
func TestErrorsOfKeysForTenants(t *testing.T) {
	r := newAuthRig(t)
	admin := as(r.unix(), tokenAdm)
	a := as(r.unix(), tokenA)
	ask := func(c *http.Client, n int) []string {
		t.Helper()
		body := fmt.Sprintf(`{"namespace":"default","keys":["k%d"]}`, n)
		return []string{
			do(t, c, "GET", fmt.Sprint("/v1/kv/default/k", n), nil).problem().Detail,
			string(post(t, c, "/v1/batch/load", body, nil).ok(t).body),
			string(post(t, c, "/v1/batch/lookup", body, nil).ok(t).body),
			do(t, c, "GET", fmt.Sprint("/v1/explain/default/k", n), nil).problem().Detail + string(do(t, c, "GET", fmt.Sprint("/v1/explain/default/k", n), nil).body),
			do(t, c, "PUT", "/v1/kv/default/new", strings.NewReader("x")).problem().Detail,
			string(storeFrames(t, c, "namespace=default", frames("new", []byte("x"))).ok(t).body),
		}
	}
	mustStore(t, admin, 1000, "k0", "k1")
	r.dev.Vanish()
	theirs, all := ask(a, 0), ask(admin, 1)
	for i := range theirs {
		if strings.Contains(theirs[i], r.dev.Path()) || strings.Contains(theirs[i], "slot ") {
			t.Errorf("a tenant is told %s", theirs[i])
		}
	}
	if text := strings.Join(all, "\n"); !strings.Contains(text, r.dev.Path()) {
		t.Errorf("an administrator is told only %s", text)
	}
	if theirs[2] == "" || !strings.Contains(theirs[2], `slab \"fast0\" is offline"`) {
		t.Errorf("a tenant is told %s", theirs[2])
	}
	// It will not be back within a second.
	for _, path := range []string{"GET /v1/kv/default/k0", "HEAD /v1/kv/default/k0", "PUT /v1/kv/default/new", "POST /v1/kv/default/k0/leases"} {
		method, path, _ := strings.Cut(path, " ")
		var got answer
		if method == "PUT" {
			got = do(t, a, method, path, strings.NewReader("x"))
		} else {
			got = do(t, a, method, path, nil)
		}
		if got.code != http.StatusServiceUnavailable || got.header.Get("Retry-After") != "30" {
			t.Errorf("%s %s: got %d, Retry-After %q", method, path, got.code, got.header.Get("Retry-After"))
		}
	}
}

// How full what all share is shows to administrators only.
func TestNoSpaceForTenants(t *testing.T) {
	r := newAuthRig(t, func(o *rigOptions) { o.size = 16 << 20 })
	a := as(r.unix(), tokenA)
	for i := 0; ; i++ {
		got := do(t, a, "PUT", fmt.Sprint("/v1/kv/default/", i), strings.NewReader(strings.Repeat("x", 5<<20)))
		if got.code == http.StatusOK {
			continue
		}
		got.want(t, 507, string(api.StatusNoSpace), "")
		if d := got.problem().Detail; !strings.HasPrefix(d, `slab "fast0" has too few free slots, the payload needs 20`) {
			t.Errorf("got %q", d)
		}
		break
	}
}
