// SPDX-License-Identifier: Apache-2.0

package scripts

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/internal/contract"
)

// request is what a script asks to be sent.
type request struct {
	listener       string
	method, target string
	header         http.Header
	body           []byte
	hasBody        bool
	chunked        bool
	stall          int // send only so many bytes until released; −1: all
	background     string
	file           string         // where the answer's body goes
	until          string         // send again until the answer has this status
	match          *regexp.Regexp // and its body is like this
	expiring       string         // a key of the namespace default that is stored before each try, for a millisecond
}

const httpUsage = "http [-to LISTENER] [-H 'Name: value'] [-d TEXT|@FILE] [-random N] [-f KEY=TEXT|@FILE|%N] [-t TYPE] [-chunked] [-stall N] [-bg NAME] [-o FILE] [-until STATUS [-match PATTERN]] [-expiring KEY] METHOD TARGET"

// parseRequest reads the flags of http and sweep, and returns what follows them.
func parseRequest(ts *testscript.TestScript, args []string) (request, []string) {
	r := request{listener: "unix", header: http.Header{}, stall: -1}
	next := func() string {
		if len(args) < 2 {
			usage(ts, httpUsage)
		}
		args = args[1:]
		return args[0]
	}
	for ; len(args) > 0 && strings.HasPrefix(args[0], "-"); args = args[1:] {
		switch args[0] {
		case "-to":
			r.listener = next()
		case "-H":
			name, value, _ := strings.Cut(next(), ":")
			r.header.Add(name, strings.TrimSpace(value))
		case "-d":
			r.body, r.hasBody = content(ts, next()), true
		case "-random":
			r.body, r.hasBody = random(ts, next()), true
		case "-f":
			key, data, _ := strings.Cut(next(), "=")
			b := content(ts, data)
			r.body = append(api.AppendFrame(r.body, api.Frame{Key: key, Bytes: int64(len(b))}), b...)
			r.hasBody = true
			r.header.Set("Content-Type", api.MediaFrames)
		case "-t":
			r.header.Set("Content-Type", next())
		case "-chunked":
			r.chunked = true
		case "-stall":
			r.stall = atoi(ts, next())
		case "-bg":
			r.background = next()
		case "-o":
			r.file = next()
		case "-until":
			r.until = next()
		case "-expiring":
			r.expiring = next()
		case "-match":
			pattern, err := regexp.Compile(next())
			ts.Check(err)
			r.match = pattern
		default:
			usage(ts, httpUsage)
		}
	}
	if r.hasBody && r.header.Get("Content-Type") == "" {
		r.header.Set("Content-Type", api.MediaOctets)
		if bytes.HasPrefix(r.body, []byte("{")) {
			r.header.Set("Content-Type", api.MediaJSON)
		}
	}
	if r.header.Get("Content-Type") == "none" {
		r.header.Del("Content-Type")
	}
	return r, args
}

func atoi(ts *testscript.TestScript, text string) int {
	n, err := strconv.Atoi(text)
	ts.Check(err)
	return n
}

func content(ts *testscript.TestScript, text string) []byte {
	if name, ok := strings.CutPrefix(text, "@"); ok {
		return []byte(ts.ReadFile(name))
	}
	if n, ok := strings.CutPrefix(text, "%"); ok {
		return random(ts, n)
	}
	return []byte(text)
}

// random is N bytes, the same for every N.
func random(ts *testscript.TestScript, n string) []byte {
	b := make([]byte, atoi(ts, n))
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // never fails
	return b
}

func cmdHTTP(ts *testscript.TestScript, neg bool, args []string) {
	r, args := parseRequest(ts, args)
	if neg || len(args) != 2 {
		usage(ts, httpUsage)
	}
	r.method, r.target = args[0], args[1]
	s := of(ts)
	var p *pending
	if r.until != "" {
		p = s.again(ts, r)
	} else {
		p = s.send(ts, r)
	}
	if r.background == "" {
		s.show(ts, p)
		return
	}
	if s.pending[r.background] != nil {
		ts.Fatalf("there is a request %s already", r.background)
	}
	s.pending[r.background] = p
}

func cmdCollect(ts *testscript.TestScript, neg bool, args []string) {
	s := of(ts)
	if neg || len(args) != 1 || s.pending[args[0]] == nil {
		usage(ts, "collect NAME")
	}
	p := s.pending[args[0]]
	delete(s.pending, args[0])
	s.show(ts, p)
}

// cmdShows waits until the answer to a request of http -bg has something in its
// body, though it may not be whole.
func cmdShows(ts *testscript.TestScript, neg bool, args []string) {
	s := of(ts)
	if neg || len(args) != 2 || s.pending[args[0]] == nil {
		usage(ts, "shows NAME PATTERN")
	}
	pattern, err := regexp.Compile(args[1])
	ts.Check(err)
	p, late := s.pending[args[0]], time.After(patience)
	for {
		text, more := p.so.next()
		if pattern.MatchString(text) {
			return
		}
		select {
		case <-more:
		case <-p.done:
			s.fail(ts, "%s %s ended without %s: %.500s", p.r.method, p.r.target, pattern, p.so.String())
		case <-late:
			s.fail(ts, "%s %s does not show %s: %.500s", p.r.method, p.r.target, pattern, p.so.String())
		}
	}
}

func cmdRelease(ts *testscript.TestScript, neg bool, args []string) {
	s := of(ts)
	if neg || len(args) != 1 || s.pending[args[0]] == nil {
		usage(ts, "release NAME")
	}
	s.pending[args[0]].release()
}

// again sends a request until its answer is what it waits for. What is expired is
// swept away every second, so a key that must be seen in between is stored anew
// for every try.
func (s *script) again(ts *testscript.TestScript, r request) *pending {
	late := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if r.expiring != "" {
			put := request{listener: "unix", method: "PUT", target: "/v1/kv/default/" + r.expiring + "?ttl_ms=1&overwrite=true&force=true", body: []byte("x"), hasBody: true, stall: -1}
			s.finishOne(ts, s.send(ts, put))
		}
		p := s.send(ts, r)
		s.finishOne(ts, p)
		if strconv.Itoa(p.exchange.Status) == r.until && (r.match == nil || r.match.Match(p.exchange.Content)) {
			return p
		}
		select {
		case <-tick.C:
		case <-late:
			s.fail(ts, "%s %s: still %d %.300s", r.method, r.target, p.exchange.Status, p.exchange.Content)
		}
	}
}

// pending is a request under way.
type pending struct {
	r       request
	cancel  context.CancelFunc
	release func()
	done    chan struct{}
	so      logText // of the answer's body, as it comes

	// Once done is closed:
	exchange contract.Exchange
	err      error
}

// send begins a request. What it exchanges is seen by the document, and counts.
func (s *script) send(ts *testscript.TestScript, r request) *pending {
	ctx, cancel := context.WithCancel(context.Background())
	gate := make(chan struct{})
	p := &pending{r: r, cancel: cancel, release: sync.OnceFunc(func() { close(gate) }), done: make(chan struct{})}
	host := "localhost"
	if h := r.header.Get("Host"); h != "" {
		host = h
	}
	req, err := http.NewRequestWithContext(ctx, r.method, "http://localhost"+r.target, nil)
	ts.Check(err)
	req.Host = host
	if r.header != nil {
		req.Header = r.header.Clone()
	}
	req.Header.Del("Host")
	if r.hasBody {
		req.Body = &body{data: r.body, stall: r.stall, gate: gate, ctx: ctx}
		req.ContentLength = int64(len(r.body))
		if r.chunked {
			req.ContentLength = -1
		}
		if len(r.body) == 0 && !r.chunked {
			req.Body = http.NoBody
		}
	}
	tr := &http.Transport{DisableKeepAlives: true, DisableCompression: true, ExpectContinueTimeout: patience, DialContext: func(context.Context, string, string) (net.Conn, error) {
		return s.dial(ts, r.listener)
	}}
	client := &http.Client{
		Transport:     &contract.Transport{Next: tr, Listener: r.listener, Seen: func(e contract.Exchange) { p.exchange = e }},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	go func() {
		defer close(p.done)
		defer p.release()
		resp, err := client.Do(req)
		if err != nil {
			p.err = err
			return
		}
		_, err = io.Copy(&p.so, resp.Body)
		p.err = err
		_ = resp.Body.Close()
	}()
	return p
}

// drop ends a request that nobody collects.
func (p *pending) drop() {
	p.cancel()
	<-p.done
}

// body is a request's body that may stop in the middle until the gate opens.
type body struct {
	data  []byte
	sent  int
	stall int
	gate  chan struct{}
	ctx   context.Context
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.sent == len(b.data) {
		return 0, io.EOF
	}
	n := len(b.data) - b.sent
	if b.stall >= 0 && b.sent < b.stall {
		n = b.stall - b.sent
	} else if b.stall >= 0 {
		select {
		case <-b.gate:
			b.stall = -1
		case <-b.ctx.Done():
			return 0, b.ctx.Err()
		}
	}
	n = copy(p, b.data[b.sent:][:n])
	b.sent += n
	return n, nil
}

// Close implements io.Closer.
func (b *body) Close() error { return nil }

// dial connects to a listener of the daemon.
func (s *script) dial(ts *testscript.TestScript, listener string) (net.Conn, error) {
	if listener == "unix" {
		return net.Dial("unix", ts.Getenv("SOCK"))
	}
	addr := ts.Getenv(strings.ToUpper(listener))
	if addr == "" {
		return nil, fmt.Errorf("the daemon has no listener %s", listener)
	}
	return net.Dial("tcp", addr)
}

// show waits for a request, holds its exchange against the document, prints the
// answer and makes it the last one.
func (s *script) show(ts *testscript.TestScript, p *pending) {
	s.finishOne(ts, p)
	e := p.exchange
	out := ts.Stdout()
	fmt.Fprintf(out, "HTTP %d\n", e.Status)
	names := make([]string, 0, len(e.Answer))
	for name := range e.Answer {
		if name != "Date" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(out, "%s: %s\n", name, strings.Join(e.Answer[name], ", "))
	}
	if p.r.file != "" {
		ts.Check(os.WriteFile(ts.MkAbs(p.r.file), e.Content, 0o600))
	} else {
		fmt.Fprintf(out, "\n%s", e.Content[:min(len(e.Content), shown)])
	}
}

// shown is how much of a body is printed, in bytes.
const shown = 16 << 10

// finishOne waits for a request and judges it.
func (s *script) finishOne(ts *testscript.TestScript, p *pending) {
	select {
	case <-p.done:
	case <-time.After(patience):
		p.drop()
		s.fail(ts, "%s %s: no end of the answer", p.r.method, p.r.target)
	}
	p.cancel()
	if p.err != nil {
		s.fail(ts, "%s %s: %v", p.r.method, p.r.target, p.err)
	}
	s.see(ts, p.exchange)
}

// see judges an exchange and remembers it.
func (s *script) see(ts *testscript.TestScript, e contract.Exchange) {
	if err := s.doc.Check(e); err != nil {
		s.fail(ts, "against the contract: %v", err)
	}
	s.coverage.Note(e)
	s.last = e
}
