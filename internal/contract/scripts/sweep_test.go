// SPDX-License-Identifier: Apache-2.0

package scripts

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/internal/contract"
)

// template is one line of requests: an operation, and a request to it that
// is well formed: method, target, media type ("-": no body) and body.
type template struct {
	op             contract.Operation
	method, target string
	media, body    string
}

// templates reads requests, in which every operation has its line. What it
// says in braces is replaced by variables of the script.
func (s *script) templates(ts *testscript.TestScript) []template {
	text, err := os.ReadFile("testdata/requests")
	ts.Check(err)
	fill := strings.NewReplacer("{ns}", ts.Getenv("NS"), "{key}", ts.Getenv("KEY"), "{lease}", ts.Getenv("LEASE_ID"), "{slab}", ts.Getenv("SLAB"))
	ops := map[string]contract.Operation{}
	for _, op := range s.doc.Operations() {
		ops[op.ID] = op
	}
	var out []template
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := append(strings.SplitN(line, " ", 5), "")
		op, ok := ops[f[0]]
		if !ok || len(f) < 5 {
			ts.Fatalf("requests: bad line %q", line)
		}
		delete(ops, f[0])
		out = append(out, template{op, f[1], fill.Replace(f[2]), f[3], strings.ReplaceAll(fill.Replace(f[4]), `\n`, "\n")})
	}
	for id := range ops {
		ts.Fatalf("requests has no request for %s", id)
	}
	return out
}

// cmdSweep sends the request of every operation that has a status and is served
// on the listener, all at once, and wants that status and code of each. Flags are
// those of http; -q adds to the query, -d and -t replace the body.
func cmdSweep(ts *testscript.TestScript, neg bool, args []string) {
	s := of(ts)
	query := ""
	if len(args) > 1 && args[0] == "-q" {
		query, args = args[1], args[2:]
	}
	form, args := parseRequest(ts, args)
	if neg || len(args) < 2 {
		usage(ts, "sweep [-q QUERY] [FLAG]... STATUS CODE [EXCEPT]...")
	}
	status, except := args[0], args[2:]
	var all []*pending
	for _, t := range s.templates(ts) {
		if !slices.Contains(t.op.Statuses, status) || !slices.Contains(t.op.Listeners, form.listener) || slices.Contains(except, t.op.ID) {
			continue
		}
		r := form
		r.header = form.header.Clone()
		r.method, r.target = t.method, t.target
		if t.media != "-" && !r.hasBody {
			r.body, r.hasBody = []byte(t.body), true
			r.header.Set("Content-Type", t.media)
		}
		if media := form.header.Get("Content-Type"); media != "" {
			r.header.Set("Content-Type", media)
		}
		if query != "" {
			r.target = addQuery(r.target, query)
		}
		all = append(all, s.send(ts, r))
	}
	if len(all) == 0 {
		ts.Fatalf("no operation on %s has %s", form.listener, status)
	}
	for _, p := range all {
		s.finishOne(ts, p)
		if err := wanted(p.exchange, args[:2]); err != nil {
			s.fail(ts, "%v", err)
		}
	}
}

// cmdForeign sends the request of every operation with each parameter of the
// document that is another operation's, and with each field of a body that is, and
// wants each of them refused. What the operation ignores is left out.
func cmdForeign(ts *testscript.TestScript, neg bool, args []string) {
	s := of(ts)
	if neg || len(args) > 0 {
		usage(ts, "foreign")
	}
	params, bodies := s.doc.Inputs()
	for _, t := range s.templates(ts) {
		if t.op.Ignores() {
			continue
		}
		r := request{listener: t.op.Listeners[0], method: t.method, header: http.Header{}, stall: -1}
		if t.media != "-" {
			r.hasBody = true
			r.header.Set("Content-Type", t.media)
		}
		for _, name := range append(params, "nosuch") {
			if t.op.Takes(name, t.media) {
				continue
			}
			r.target, r.body = addQuery(t.target, name+"=1"), []byte(t.body)
			s.refusedAs(ts, r, name)
		}
		if t.media != api.MediaJSON {
			continue
		}
		for _, name := range append(bodies, "nosuch") {
			if t.op.HasField(name) {
				continue
			}
			field := fmt.Sprintf("%q:1}", name)
			if t.body != "{}" {
				field = "," + field
			}
			r.target, r.body = t.target, []byte(strings.TrimSuffix(t.body, "}")+field)
			s.refusedAs(ts, r, name)
		}
	}
}

// refusedAs sends a request and wants it refused for one parameter or field.
func (s *script) refusedAs(ts *testscript.TestScript, r request, name string) {
	p := s.send(ts, r)
	s.finishOne(ts, p)
	if p.r.method == http.MethodHead {
		if p.exchange.Status != http.StatusBadRequest {
			s.fail(ts, "HEAD %s: got %d, want 400", r.target, p.exchange.Status)
		}
		return
	}
	if err := wanted(p.exchange, []string{"400", api.CodeUnknownField, name}); err != nil {
		s.fail(ts, "%s: %v", name, err)
	}
}

func addQuery(target, query string) string {
	if strings.Contains(target, "?") {
		return target + "&" + query
	}
	return target + "?" + query
}
