// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rawblockd/rawblockd/api"
)

// pipe is a listener whose connections are net.Pipes, which keep to the fake
// time of synctest.
type pipe struct {
	conns chan net.Conn
	done  chan struct{}
}

func newPipe() *pipe { return &pipe{make(chan net.Conn), make(chan struct{})} }

func (p *pipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipe) Close() error {
	close(p.done)
	return nil
}

func (p *pipe) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (p *pipe) dial() net.Conn {
	client, server := net.Pipe()
	p.conns <- server
	return client
}

func dialer(dial func() net.Conn) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) { return dial(), nil }
}

var testPace = Pace{Grace: 10 * time.Second, Rate: 1 << 20}

// paced runs f in fake time against a data server, and then ends everything.
func paced(t *testing.T, deadline time.Duration, f func(r *rig, dial func() net.Conn), change ...func(*rigOptions)) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, append([]func(*rigOptions){func(o *rigOptions) { o.pace, o.deadline = testPace, deadline }}, change...)...)
		l := newPipe()
		r.serve(l, r.srv.DataHandler(Unix))
		f(r, l.dial)
	})
}

func exchangeRaw(t *testing.T, c net.Conn, request string) answer {
	t.Helper()
	r := newRaw(t, c)
	r.write(request)
	return r.answer()
}

// A body that stops arriving is cut off after its time, and so is one that
// drips: every MiB has its own deadline, however many writes it comes in.
func TestSlowBody(t *testing.T) {
	const header = "PUT /v1/kv/default/k HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n"
	for name, drip := range map[string]bool{"stops": false, "drips": true} {
		t.Run(name, func(t *testing.T) {
			log := &logLines{}
			paced(t, time.Hour, func(_ *rig, dial func() net.Conn) {
				began := time.Now()
				c := dial()
				defer c.Close()
				conn := newRaw(t, c)
				conn.sent.WriteString(header)
				stop := make(chan struct{})
				go func() {
					defer close(stop)
					must(t, second(io.WriteString(c, header+strings.Repeat("x", 1<<20))))
					for drip {
						time.Sleep(time.Second)
						if _, err := io.WriteString(c, "x"); err != nil {
							return
						}
					}
				}()
				a := conn.answer()
				a.want(t, 408, "body_too_slow", "")
				log.want(t, `msg="client cut off: its body came too slowly" method=PUT route=/v1/kv/{namespace}/{key} remote=pipe bytes_received=10`, "after=11s")
				if took := time.Since(began); took != 11*time.Second {
					t.Errorf("cut off after %v, want 11s", took)
				}
				c.Close()
				<-stop
			}, log.take)
		})
	}
}

// A large body that keeps its pace takes as long as it needs.
func TestSteadyBody(t *testing.T) {
	paced(t, time.Hour, func(r *rig, dial func() net.Conn) {
		c := dial()
		defer c.Close()
		began := time.Now()
		conn := newRaw(t, c)
		conn.write(fmt.Sprintf("PUT /v1/kv/default/k HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", 8<<20))
		for range 7 {
			time.Sleep(10 * time.Second)
			conn.write(strings.Repeat("x", 1<<20))
		}
		conn.write(strings.Repeat("x", 1<<20))
		conn.answer().ok(t)
		if took := time.Since(began); took < 70*time.Second {
			t.Errorf("took %v, want 70s", took)
		}
	})
}

// The time a body has must not bound the work that follows it: net/http goes on
// reading the connection meanwhile, and takes a failed read for a client gone.
func TestBodyDeadlineEndsWithBody(t *testing.T) {
	paced(t, time.Hour, func(r *rig, dial func() net.Conn) {
		release := r.dev.Hang(0, r.o.size)
		time.AfterFunc(14*time.Second, release) // longer than a body may take, shorter than what takes a slab out of service
		for _, request := range []string{
			"PUT /v1/kv/default/k HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
			"POST /v1/batch/load HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 36\r\n\r\n" + `{"namespace":"default","keys":["k"]}`,
		} {
			c := dial()
			exchangeRaw(t, c, request).ok(t)
			c.Close()
		}
	})
}

// The request's deadline bounds its body too.
func TestDeadlineDuringBody(t *testing.T) {
	paced(t, time.Hour, func(_ *rig, dial func() net.Conn) {
		for _, request := range []string{
			"PUT /v1/kv/default/k?deadline_ms=3000 HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc",
			"POST /v1/batch/store?namespace=default&deadline_ms=3000 HTTP/1.1\r\nHost: x\r\nContent-Type: " + api.MediaFrames +
				"\r\nContent-Length: 1000\r\n\r\n" + `{"key":"a","bytes":3}` + "\nabc",
		} {
			c := dial()
			began := time.Now()
			a := exchangeRaw(t, c, request)
			a.want(t, 504, "deadline", "")
			if took := time.Since(began); took != 3*time.Second {
				t.Errorf("took %v, want 3s", took)
			}
			c.Close()
		}
	})
}

// A client that stops taking its answer is cut off, and its memory comes back.
func TestSlowReader(t *testing.T) {
	log := &logLines{}
	paced(t, time.Hour, func(r *rig, dial func() net.Conn) {
		client := dialing(t, dial)
		mustStore(t, client, 3<<20, "a", "b")
		for _, request := range []string{
			"GET /v1/kv/default/a HTTP/1.1\r\nHost: x\r\n\r\n",
			"POST /v1/batch/load HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 40\r\n\r\n" + `{"namespace":"default","keys":["a","b"]}`,
		} {
			c := dial()
			must(t, second(io.WriteString(c, request)))
			head := make([]byte, 1024)
			must(t, second(io.ReadFull(c, head)))
			if !strings.HasPrefix(string(head), "HTTP/1.1 200") {
				t.Fatalf("got %q", head)
			}
			time.Sleep(12 * time.Second) // a MiB has eleven
			synctest.Wait()
			log.want(t, `level=WARN msg="client cut off: it took its answer too slowly" method=`+request[:strings.IndexByte(request, ' ')]+" route=/v1/", "remote=pipe", "bytes_sent=", "after=11s")
			if n := r.arena.InUse(); n != 0 {
				t.Errorf("%d bytes of memory are still held", n)
			}
			if _, err := io.Copy(io.Discard, c); err != nil && err != io.ErrClosedPipe {
				t.Errorf("got %v, want the connection closed", err)
			}
			c.Close()
		}
	}, log.take)
}

// logLines keeps what a server logs.
type logLines struct {
	mu sync.Mutex
	// +checklocks:mu
	text bytes.Buffer
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns all since the last want.
func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logLines) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Reset()
}

// take is for rigOptions.
func (l *logLines) take(o *rigOptions) {
	o.log = slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// all is what was logged since the last time.
func (l *logLines) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// want fails unless one line was logged since the last time, with all parts.
func (l *logLines) want(t *testing.T, parts ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	got := l.text.String()
	l.text.Reset()
	for _, part := range parts {
		if strings.Count(got, part) != 1 || strings.Count(got, "\n") != 1 {
			t.Errorf("logged %q, want one line with %s", got, part)
		}
	}
}

// A request that is refused has a moment for what is left of its body, however soon
// its deadline is, or if that is what it was refused for: its client is to hear the
// answer, and keeps its connection.
func TestRefusedNearItsDeadline(t *testing.T) {
	for name, c := range map[string]struct {
		key   string
		fill  bool // all memory is others'
		sends string
		code  int
		word  string
	}{
		"before it": {"there", false, "", 409, "exists"},
		"at it":     {"new", true, "1", 504, "deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			paced(t, time.Hour, func(r *rig, dial func() net.Conn) {
				mustStore(t, dialing(t, dial), 10, "there")
				if c.fill {
					held(t, r, 0, time.Minute)
				}
				conn := newRaw(t, dial())
				defer conn.conn.Close()
				began := time.Now()
				conn.write("PUT /v1/kv/default/" + c.key + "?deadline_ms=100 HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n" + c.sends)
				time.Sleep(900 * time.Millisecond)
				conn.write(strings.Repeat("x", 10-len(c.sends)))
				a := conn.answer()
				a.want(t, c.code, c.word, "")
				if took := time.Since(began); a.closes || took != 900*time.Millisecond {
					t.Errorf("answered after %v, closed: %v", took, a.closes)
				}
				conn.write("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
				conn.answer().ok(t)
				time.Sleep(time.Minute) // the memory is back
			})
		})
	}
}
