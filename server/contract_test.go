// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/internal/contract"
)

// judge fails the test for an exchange that is not as the contract of package
// api has it: an answer that is not described, a request that was answered and
// should not have been, or the other way round.
func judge(t testing.TB, e contract.Exchange) {
	doc, err := contract.Load()
	must(t, err)
	if err := doc.Check(e); err != nil {
		t.Errorf("against the contract: %v", err)
	}
}

// checked is next with every exchange judged. The name of the listener is the
// contract's. A benchmark has better things to do, and a fuzz target may not use
// the testing.F that its rig belongs to.
func checked(t testing.TB, listener string, next http.RoundTripper) http.RoundTripper {
	if _, ok := t.(*testing.T); !ok {
		return next
	}
	return &contract.Transport{Next: next, Listener: listener, Seen: func(e contract.Exchange) { judge(t, e) }}
}

// dialing is a client of the unix listener, with a new connection for every
// request.
func dialing(t testing.TB, dial func() net.Conn) *http.Client {
	return &http.Client{Transport: checked(t, "unix", &http.Transport{DialContext: dialer(dial), DisableKeepAlives: true})}
}

// asSent is the exchange of a request sent by hand, as far as sent can be read.
func asSent(sent []byte) (contract.Exchange, *http.Request) {
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(sent)))
	if err != nil {
		return contract.Exchange{}, nil
	}
	e := contract.Exchange{Method: r.Method, Target: r.RequestURI, Header: r.Header}
	e.Body, err = io.ReadAll(r.Body)
	e.Whole = err == nil
	return e, r
}

// Every listener hands out the contract, and not twice to who has it.
func TestOpenAPI(t *testing.T) {
	r := newRig(t)
	tcp, _ := r.tcp()
	for name, c := range map[string]*http.Client{"unix": r.unix(), "http": tcp, "admin": r.admin()} {
		a := do(t, c, "GET", "/openapi.json", nil).ok(t)
		if !bytes.Equal(a.body, api.OpenAPI()) || a.header.Get("Content-Type") != api.MediaJSON {
			t.Errorf("%s: got %d bytes of %s", name, len(a.body), a.header.Get("Content-Type"))
		}
		again := do(t, c, "GET", "/openapi.json", nil, "If-None-Match", a.header.Get("ETag"))
		if again.code != http.StatusNotModified || len(again.body) != 0 || again.header.Get("ETag") != a.header.Get("ETag") {
			t.Errorf("%s: got %d with %d bytes, want 304", name, again.code, len(again.body))
		}
		do(t, c, "GET", "/openapi.json", nil, "If-None-Match", `"other"`).ok(t)
	}
}

// The routes of every listener are those of the contract, no more and no less.
func TestContractRoutes(t *testing.T) {
	doc, err := contract.Load()
	must(t, err)
	want := map[string]map[string]bool{}
	for _, op := range doc.Operations() {
		for _, l := range op.Listeners {
			if want[l] == nil {
				want[l] = map[string]bool{}
			}
			want[l][op.Method+" "+op.Path] = true
		}
	}
	s := New(Options{})
	got := map[string]map[string]bool{}
	for l, routes := range map[string]*router{"unix": s.dataRoutes(Unix), "http": s.dataRoutes(TCP), "admin": s.adminRoutes(), "lease": s.leaseRoutes()} {
		got[l] = map[string]bool{}
		for _, rt := range routes.routes {
			for method := range rt.methods {
				got[l][method+" "+rt.pattern] = true
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("routes of the contract (-) and of the server (+):\n%s", diff)
	}
}

// What this package reads of a query, package api of a body, has a name in the
// contract. With the scripts of internal/contract, which send every operation what is
// another's, nothing is accepted that is not described.
func TestContractInputs(t *testing.T) {
	doc, err := contract.Load()
	must(t, err)
	params, fields := doc.Inputs()
	for _, c := range []struct {
		files, pattern string
		known          []string
		least          int
	}{
		{"*.go", `\bq\.(?:text|boolean|booleanOr|number|seconds|key|given)\("([^"]*)"`, params, 15},
		{"../api/*.go", `\bcase ((?:"[a-z_]+", )*"[a-z_]+"):`, append(fields,
			"key", "status", "bytes", "error", // of frames
			"into", "lengths", "allow_busy", "from", "overwrite", "after", "family"), 10}, // refused with a word of their own
	} {
		seen := map[string]bool{}
		for _, m := range found(t, c.files, c.pattern) {
			for name := range strings.SplitSeq(m, ", ") {
				seen[strings.Trim(name, `"`)] = true
			}
		}
		for name := range seen {
			if !slices.Contains(c.known, name) {
				t.Errorf("%s reads %q, which the contract does not have", c.files, name)
			}
		}
		if len(seen) < c.least {
			t.Errorf("%s: found %d names, so the pattern is not theirs any more", c.files, len(seen))
		}
	}
	// Only the reader of queries looks at one: it refuses what nobody asked for.
	if all := found(t, "*.go", `(\.FormValue\(|\.URL\.Query\(|\.URL\.RawQuery)`); len(all) != 1 {
		t.Errorf("queries are read in %d places, want 1", len(all))
	}
}

// found returns the first group of every match in files that are no tests.
func found(t *testing.T, files, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(files)
	must(t, err)
	var out []string
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		must(t, err)
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
			out = append(out, m[1])
		}
	}
	return out
}
