// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"bytes"
	"io"
	"net/http"
	"sync"
)

// Transport is an http.RoundTripper that shows every exchange of another one to
// Seen: when its answer has been read to its end, or is closed before.
type Transport struct {
	Next     http.RoundTripper
	Listener string
	Seen     func(Exchange)
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := &recorded{ended: true, length: r.ContentLength}
	if r.Body != nil && r.Body != http.NoBody {
		r = r.Clone(r.Context())
		r.Body = sent.watch(r.Body)
		if get := r.GetBody; get != nil {
			r.GetBody = func() (io.ReadCloser, error) { // the transport begins anew
				b, err := get()
				if err != nil {
					return nil, err
				}
				return sent.watch(b), nil
			}
		}
	}
	resp, err := t.Next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	e := Exchange{
		Listener: t.Listener, Method: r.Method, Target: r.URL.RequestURI(), Header: r.Header,
		Status: resp.StatusCode, Answer: resp.Header.Clone(),
	}
	resp.Body = &answer{ReadCloser: resp.Body, e: e, sent: sent, seen: t.Seen}
	return resp, nil
}

// keep bounds what is kept of a body, in bytes.
const keep = 64 << 20

// recorded is a request's body as far as it was sent. The transport may still
// be at it when the answer is there.
type recorded struct {
	length int64 // that was declared; −1: none

	mu sync.Mutex
	// +checklocks:mu
	bytes []byte
	// +checklocks:mu
	ended bool
	// +checklocks:mu
	turn int // how often the body was begun
}

// watch begins to record body.
func (s *recorded) watch(body io.ReadCloser) io.ReadCloser {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes, s.ended, s.turn = nil, false, s.turn+1
	return &sending{body, s, s.turn}
}

func (s *recorded) add(turn int, p []byte, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if turn == s.turn {
		s.bytes = append(s.bytes, p[:min(len(p), keep-len(s.bytes))]...)
		s.ended = s.ended || ended
	}
}

// get returns what was sent, and whether it is all.
func (s *recorded) get() ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.ended || int64(len(s.bytes)) == s.length
	return bytes.Clone(s.bytes), all && len(s.bytes) < keep
}

type sending struct {
	io.ReadCloser
	to   *recorded
	turn int
}

// Read implements io.Reader.
func (s *sending) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	s.to.add(s.turn, p[:n], err == io.EOF)
	return n, err
}

// answer is an answer's body.
type answer struct {
	io.ReadCloser
	e    Exchange
	sent *recorded
	seen func(Exchange)
	told bool
}

// Read implements io.Reader.
func (a *answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	a.e.Content = append(a.e.Content, p[:min(n, keep-len(a.e.Content))]...)
	if err == io.EOF {
		a.tell(len(a.e.Content) < keep)
	}
	return n, err
}

// Close implements io.Closer.
func (a *answer) Close() error {
	a.tell(false)
	return a.ReadCloser.Close()
}

func (a *answer) tell(complete bool) {
	if a.told {
		return
	}
	a.told = true
	a.e.Complete = complete
	a.e.Body, a.e.Whole = a.sent.get()
	a.seen(a.e)
}
