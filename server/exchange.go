// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/store"
)

// exchange is one request and its answer. It is the http.ResponseWriter that
// handlers get, and paces both bodies.
type exchange struct {
	http.ResponseWriter
	rc    *http.ResponseController
	pace  Pace
	body  pacedBody
	hold  hold
	code  int // 0 until the response has begun
	bytes atomic.Int64
	began time.Time

	id      uint64 // in the table of requests in flight
	method  string
	r       *http.Request
	about   about
	trace   *store.Trace
	endless bool // it lasts as long as its client likes: slow means nothing

	access access // what the sender may do

	patience time.Duration // bounds limit where the request does not say; 0: no more than for others

	latest atomic.Int64 // Unix nanoseconds: when the answer has to be taken at the latest; 0: the pace says

	limit  time.Duration // the request's deadline, from its beginning
	undone string        // what that leaves undone, as the end of a sentence
	lookUp string        // what to do where the outcome is unknown; empty: look the key up
}

func (s *Server) newExchange(w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{
		ResponseWriter: w, rc: http.NewResponseController(w), pace: s.o.Pace, began: time.Now(),
		method: clip(r.Method), r: r, trace: store.NewTrace(),
	}
	x.hold.s, x.hold.x = s, x
	x.body.x, x.body.r, x.body.waits = x, r.Body, r.Header.Get("Expect") != "" && r.ContentLength != 0
	r.Body = &x.body
	return x
}

// Unwrap is for http.ResponseController.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// allow is the time in which n bytes must pass.
func (p Pace) allow(n int64) time.Duration {
	return p.Grace + time.Duration(float64(n)/float64(p.Rate)*float64(time.Second))
}

// WriteHeader begins the response.
func (x *exchange) WriteHeader(code int) {
	if x.code == 0 && code >= 200 {
		x.endBody()
		x.code = code
		x.writeWithin(0)
	}
	x.ResponseWriter.WriteHeader(code)
}

// Write sends p, which must be taken within its time.
func (x *exchange) Write(p []byte) (int, error) {
	if x.code == 0 {
		x.WriteHeader(http.StatusOK)
	}
	x.trace.At(store.StageClient)
	x.writeWithin(int64(len(p)))
	n, err := x.ResponseWriter.Write(p)
	x.bytes.Add(int64(n))
	return n, err
}

// writeWithin sets the write deadline. A response that cannot have one, such as
// a recorder's in a test, goes without.
func (x *exchange) writeWithin(n int64) {
	t := time.Now().Add(x.pace.allow(n))
	if x.hold.isCut(takes) {
		t = longAgo()
	}
	_ = x.rc.SetWriteDeadline(t)
	// Looked at only now, as hurry may have come between.
	if latest := x.latest.Load(); latest != 0 && latest < t.UnixNano() {
		_ = x.rc.SetWriteDeadline(time.Unix(0, latest))
	}
}

// hurry gives the client d for the whole rest of the answer. Unlike the others it
// is called by anybody.
func (x *exchange) hurry(d time.Duration) {
	t := time.Now().Add(d)
	x.latest.Store(t.UnixNano())
	_ = x.rc.SetWriteDeadline(t)
}

// json answers 200 with v.
func (x *exchange) json(v any) error {
	return x.answer(http.StatusOK, api.MediaJSON, v)
}

func (x *exchange) answer(code int, media string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	h := x.Header()
	h.Set("Content-Type", media)
	h.Set("Content-Length", strconv.Itoa(len(b)+1))
	x.WriteHeader(code)
	_, err = x.Write(append(b, '\n'))
	return err
}

// Sizes in bytes: what buffers are cut into and checksums are made of, and what
// transfers to and from a client's memory will be aligned to.
const (
	piece = 1 << 20
	page  = 4096
)

// buffer is memory of the store's stream budget.
type buffer interface {
	Len() int64
	Chunks() [][]byte // pieces; the last one may be longer than what is left of Len
}

// payload sends a buffer's bytes to w, straight from its memory.
func payload(w io.Writer, buf buffer) error {
	left := buf.Len()
	for _, chunk := range buf.Chunks() {
		chunk = chunk[:min(int64(len(chunk)), left)]
		if _, err := w.Write(chunk); err != nil {
			return err
		}
		left -= int64(len(chunk))
	}
	return nil
}

// fill reads a buffer's bytes from r, straight into its memory.
func (x *exchange) fill(buf buffer, r io.Reader) (int64, error) {
	left, got := buf.Len(), int64(0)
	for _, chunk := range buf.Chunks() {
		chunk = chunk[:min(int64(len(chunk)), left)]
		x.body.arm(int64(len(chunk)))
		n, err := io.ReadFull(r, chunk)
		got += int64(n)
		if err != nil {
			return got, err
		}
		left -= int64(n)
	}
	return got, nil
}

// pacedBody is a request's body. Every piece of 1 MiB must arrive in its time,
// and all of it before the request's deadline.
type pacedBody struct {
	x      *exchange
	r      io.ReadCloser
	until  time.Time // the request's deadline; zero: none
	window int64     // bytes that the present read deadline is good for
	early  [1]byte   // the first byte, if ahead
	got    atomic.Int64
	waits  bool // the client sends nothing before it is told 100 Continue
	ahead  bool // the first byte was read and not yet asked for
	begun  bool // something was asked for
	ended  bool // read to its end, or it failed
	whole  bool // read to its end
}

// bound makes ctx's deadline the body's.
func (b *pacedBody) bound(ctx context.Context) {
	if t, ok := ctx.Deadline(); ok {
		b.until = t
	}
}

// late tells whether it was the request's own deadline that passed.
func (b *pacedBody) late() bool { return !b.until.IsZero() && !time.Now().Before(b.until) }

// arm gives the next n bytes their time, from now on.
func (b *pacedBody) arm(n int64) {
	if b.ended {
		return
	}
	t := time.Now().Add(b.x.pace.allow(n))
	if !b.until.IsZero() && b.until.Before(t) {
		t = b.until
	}
	if b.x.hold.isCut(sends) {
		t = longAgo()
	}
	_ = b.x.rc.SetReadDeadline(t)
	b.window = n
}

// first waits until the body begins to arrive, so that a client that only says it
// will send takes no memory meanwhile. One that asked first has to be told to send.
func (b *pacedBody) first() error {
	if b.waits || b.begun {
		return nil
	}
	b.arm(1)
	n, err := b.Read(b.early[:])
	b.ahead = n > 0
	if b.ahead {
		return nil
	}
	return err
}

// Read implements io.Reader.
func (b *pacedBody) Read(p []byte) (int, error) {
	b.begun = true
	if b.ahead && len(p) > 0 {
		p[0], b.ahead = b.early[0], false
		return 1, nil
	}
	b.x.trace.At(store.StageClient)
	if b.window <= 0 {
		b.arm(piece)
	}
	b.x.hold.await(sends, 1)
	n, err := b.r.Read(p)
	if b.x.hold.moved(n) && err == nil {
		err = os.ErrDeadlineExceeded
	}
	b.got.Add(int64(n))
	b.window -= int64(n)
	if err != nil {
		b.whole = err == io.EOF
		b.end()
	}
	return n, err
}

// end takes the read deadline back, else it would end the request while its
// answer is being made: net/http reads on to notice a client that goes away. After a
// body that failed nothing more is to be read: net/http would wait for what is left
// of it, until the client closes the connection.
func (b *pacedBody) end() {
	if b.ended {
		return
	}
	b.ended = true
	t := time.Time{}
	if !b.whole {
		t = longAgo()
	}
	_ = b.x.rc.SetReadDeadline(t)
}

// Close implements io.Closer.
func (b *pacedBody) Close() error { return b.r.Close() }

// unreadMost is how many bytes of a body that no handler asks for are read all the
// same, so that the connection can go on.
const unreadMost = 64 << 10

// skip reads a body that no handler will, if it is small. Without it net/http would
// read it, for as long as the client likes.
func (x *exchange) skip() error {
	b := &x.body
	unasked := b.waits && !b.begun
	if b.ended || unasked || x.r.ContentLength == 0 || x.r.ContentLength > unreadMost || x.Header().Get("Connection") == "close" {
		return nil
	}
	if _, err := io.CopyN(io.Discard, b, unreadMost+1); err != nil && !b.whole {
		return x.bodyError(err, b.got.Load(), x.r.ContentLength)
	}
	return nil
}

// endBody is for the beginning of an answer: what is left of the body then is read
// if it is small; else the connection ends with the answer. net/http reads on for a
// while before it closes the connection, so the body keeps a deadline.
func (x *exchange) endBody() {
	_ = x.skip() // its failure ends the connection, with the answer
	if x.r.ContentLength != 0 && !x.body.whole {
		x.Header().Set("Connection", "close")
		x.body.arm(0)
	}
}

// drainLeast is the time that a body which is refused has at least.
const drainLeast = time.Second

// drain reads what is left of a body that is refused, up to limit bytes: a
// client that sends before it reads would see a reset instead of the answer.
// It reports whether the end was reached. That takes until the request's deadline at
// the most, where it is not over yet: the answer is worth more than the connection.
func (b *pacedBody) drain(limit int64) bool {
	if b.ended {
		return b.whole
	}
	switch soonest := time.Now().Add(drainLeast); {
	case b.late():
		b.until = time.Time{}
	case !b.until.IsZero() && b.until.Before(soonest):
		b.until = soonest
	}
	b.window = 0
	_, _ = io.CopyN(io.Discard, b, limit)
	return b.whole
}
