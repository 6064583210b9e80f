// SPDX-License-Identifier: Apache-2.0

package server

import (
	"io"
	"net"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/ioengine"
)

// held takes all memory but left bytes, and gives it back after d.
func held(t *testing.T, r *rig, left int64, d time.Duration) {
	t.Helper()
	var bufs []*ioengine.Buf
	for n := r.arena.Cap() - left; n > 0; n -= 1 << 20 {
		buf, err := r.arena.Get(t.Context(), 1<<20)
		must(t, err)
		bufs = append(bufs, buf)
	}
	time.AfterFunc(d, func() {
		for _, b := range bufs {
			b.Release()
		}
	})
}

// Where others hold the memory, a request that has moved nothing yet is told
// soon instead of at the end of its deadline.
func TestBusyMemory(t *testing.T) {
	for name, request := range map[string]string{
		"get":   "GET /v1/kv/default/there HTTP/1.1\r\nHost: x\r\n\r\n",
		"put":   "PUT /v1/kv/default/k HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
		"store": "POST /v1/batch/store?namespace=default HTTP/1.1\r\nHost: x\r\nContent-Type: " + api.MediaFrames + "\r\nContent-Length: 25\r\n\r\n" + `{"key":"k","bytes":3}` + "\nabc",
	} {
		t.Run(name, func(t *testing.T) {
			paced(t, time.Minute, func(r *rig, dial func() net.Conn) {
				c := dial()
				defer c.Close()
				exchangeRaw(t, c, "PUT /v1/kv/default/there HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc").ok(t)
				held(t, r, 0, 20*time.Second)
				began := time.Now()
				a := exchangeRaw(t, c, request)
				a.want(t, 503, "busy", "")
				if took := time.Since(began); took != DefaultMemoryWait || a.header.Get("Retry-After") == "" {
					t.Errorf("took %v, want %v; header %v", took, DefaultMemoryWait, a.header)
				}
				if got := counter(t, r.srv.metrics.refused.WithLabelValues("stream_bytes")); got != 1 {
					t.Errorf("counted %v refusals, want 1", got)
				}
				time.Sleep(20 * time.Second)
				exchangeRaw(t, c, request).ok(t)
			})
		})
	}
}

// Frames that have arrived are worth waiting for.
func TestLaterFramesWait(t *testing.T) {
	paced(t, time.Minute, func(r *rig, dial func() net.Conn) {
		held(t, r, 1<<20, 20*time.Second)
		client := dialing(t, dial)
		began := time.Now()
		mustStore(t, client, 1<<20, "a")
		pr, pw := io.Pipe()
		go func() {
			defer pw.Close()
			must(t, second(io.Copy(pw, frames("b", data("b", 1000)))))
			synctest.Wait()
			must(t, second(io.Copy(pw, frames("c", data("c", 2<<20)))))
		}()
		storeFrames(t, client, "namespace=default", pr).ok(t)
		if took := time.Since(began); took != 20*time.Second {
			t.Errorf("took %v, want 20s", took)
		}
	})
}

// A batch load that has its first key waits for the others as long as it takes; one
// that gets no memory at all is told key by key.
func TestBatchLoadWaits(t *testing.T) {
	for name, c := range map[string]struct {
		left int64
		took time.Duration
		want api.Status
	}{
		"later keys": {1 << 20, 20 * time.Second, api.StatusOK},
		"no memory":  {0, DefaultMemoryWait, api.StatusBusy},
	} {
		t.Run(name, func(t *testing.T) {
			paced(t, time.Minute, func(r *rig, dial func() net.Conn) {
				client := dialing(t, dial)
				mustStore(t, client, 1<<20, "a")
				mustStore(t, client, 2<<20, "b")
				held(t, r, c.left, 20*time.Second)
				began := time.Now()
				fs, _ := load(t, client, "a", "b")
				if took := time.Since(began); took != c.took || fs[0].Status != c.want || fs[1].Status != c.want {
					t.Errorf("took %v, got %+v", took, fs)
				}
				if got := counter(t, r.srv.metrics.refused.WithLabelValues("stream_bytes")); (got == 1) != (c.want == api.StatusBusy) {
					t.Errorf("counted %v refusals", got)
				}
				time.Sleep(20 * time.Second)
			})
		})
	}
}

// A body's buffer grows with what has arrived, whatever was declared, up to the
// limit and a byte, and all of it is charged.
func TestBodyMemory(t *testing.T) {
	for _, limit := range []int64{firstBody, firstBody + 1, 100_000, 1 << 20, 5<<20 + 3} {
		for _, declared := range []int64{-1, 0, 1, 600, 30_000, limit - 1, limit} {
			s := New(Options{Limits: Limits{JSONBytes: limit}})
			x := s.newExchange(httptest.NewRecorder(), httptest.NewRequest("POST", "/", nil))
			var buf []byte
			for int64(len(buf)) <= min(limit, max(declared, 0)) || declared < 0 && int64(len(buf)) <= limit {
				was := int64(len(buf))
				grown, err := s.more(x, buf, limit, declared)
				must(t, err)
				size := int64(cap(grown))
				if size <= was || size > limit+1 || size > max(2*was, firstBody) {
					t.Fatalf("limit %d, declared %d: %d bytes of buffer after %d have arrived", limit, declared, size, was)
				}
				if got := s.texts.used.Load(); got != min(size, limit) {
					t.Errorf("limit %d, declared %d: %d bytes charged for a buffer of %d", limit, declared, got, size)
				}
				buf = grown[:size]
			}
			x.hold.end()
			if got := s.texts.used.Load(); got != 0 {
				t.Errorf("limit %d, declared %d: %d bytes are charged at the end", limit, declared, got)
			}
		}
	}
}
