// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/ioengine"
)

// inUse is the memory of the process, in bytes: heap and stacks, after a
// collection.
func inUse() int64 {
	runtime.GC()
	runtime.GC() // what finalizers of the first let go of
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// abused runs f in fake time against a server with small limits, and hands it a
// well-behaved client.
func abused(t *testing.T, f func(t *testing.T, r *rig, dial func() net.Conn, good *wellBehaved), change ...func(*rigOptions)) {
	paced(t, time.Minute, func(r *rig, dial func() net.Conn) {
		t := r.t.(*testing.T) // of the bubble
		good := &wellBehaved{t: t, client: dialing(t, dial)}
		touch(t, r)
		good.batch()
		before := inUse()
		f(t, r, dial, good)
		good.batch()
		synctest.Wait()
		if places, texts, mem := r.srv.places.used.Load(), r.srv.texts.used.Load(), r.arena.InUse(); places != 0 || texts != 0 || mem != 0 {
			t.Errorf("left behind: %d places, %d bytes of bodies, %d of stream memory", places, texts, mem)
		}
		if more := inUse() - before; more > 16<<20 {
			t.Errorf("left behind: %d MiB of memory", more>>20)
		}
	}, append([]func(*rigOptions){func(o *rigOptions) {
		o.pace, o.batchKeys = DefaultPace(), 16384
		o.requests, o.jsonBytes = 64, 2*api.MaxJSONBody(o.batchKeys)
	}}, change...)...)
}

// touch makes the simulated device as large as it gets.
func touch(t *testing.T, r *rig) {
	t.Helper()
	for at := int64(0); at < r.o.size; at += 1 << 20 {
		b, free, err := ioengine.AlignedAlloc(1 << 20)
		must(t, err)
		must(t, second(r.dev.Preadv([][]byte{b}, at)))
		must(t, second(r.dev.Pwritev([][]byte{b}, at)))
		free()
	}
}

// wellBehaved is a client that keeps all rules: what is refused for now it tries
// again when it is told to.
type wellBehaved struct {
	t      *testing.T
	client *http.Client
	n      int
}

// batch stores, loads, looks up and removes a batch of keys, all of which have to
// succeed within a minute, retries included. It returns how long that took.
func (g *wellBehaved) batch() time.Duration {
	g.t.Helper()
	began := time.Now()
	g.n++
	var items []any
	keys := make([]string, 4)
	for i := range keys {
		keys[i] = fmt.Sprint("good-", g.n, "-", i)
		items = append(items, keys[i], data(keys[i], 256<<10))
	}
	g.retry("/v1/batch/store?namespace=default", api.MediaFrames, frames(items...).Bytes(), `"ok":4`)
	body, err := json.Marshal(map[string]any{"namespace": "default", "keys": keys})
	must(g.t, err)
	g.retry("/v1/batch/load", api.MediaJSON, body, string(data(keys[3], 256<<10)))
	g.retry("/v1/batch/lookup", api.MediaJSON, body, `"hits":4`)
	g.retry("/v1/batch/remove", api.MediaJSON, body, `"removed":4`)
	took := time.Since(began)
	if took > time.Minute {
		g.t.Errorf("a well-behaved client's batch took %v", took)
	}
	return took
}

func (g *wellBehaved) retry(path, kind string, body []byte, want string) {
	g.t.Helper()
	for range 60 {
		a := do(g.t, g.client, "POST", path, bytes.NewReader(body), "Content-Type", kind)
		after, err := strconv.Atoi(a.header.Get("Retry-After"))
		switch {
		case a.code == 200 && bytes.Contains(a.body, []byte(want)):
			return
		case a.code == 200 && bytes.Contains(a.body, []byte(`"busy"`)):
			after = 1
		case a.code != 429 && a.code != 503 || err != nil:
			g.t.Fatalf("%s: got %d %.300q, Retry-After %q", path, a.code, a.body, a.header.Get("Retry-After"))
		}
		time.Sleep(time.Duration(after) * time.Second)
	}
	g.t.Fatalf("%s: refused 60 times", path)
}

// many opens n connections and sends each what send returns for it.
func many(t *testing.T, n int, dial func() net.Conn, send func(i int) string) []net.Conn {
	t.Helper()
	conns := make([]net.Conn, n)
	for i := range conns {
		conns[i] = dial()
		t.Cleanup(func() { conns[i].Close() })
		must(t, second(io.WriteString(conns[i], send(i))))
	}
	return conns
}

// ended fails unless the server has ended all connections, whatever it said.
func ended(t *testing.T, conns []net.Conn) {
	t.Helper()
	for i, c := range conns {
		_ = c.SetReadDeadline(time.Now().Add(time.Minute)) // refused for one that has ended
		if _, err := io.Copy(io.Discard, c); err != nil && !errors.Is(err, io.ErrClosedPipe) && !errors.Is(err, io.EOF) {
			t.Errorf("connection %d: %v, want it ended", i, err)
			return
		}
	}
}

// Connections whose header does not come are ended in their time and cost nothing
// that anybody else needs.
func TestSlowHeaders(t *testing.T) {
	abused(t, func(t *testing.T, _ *rig, dial func() net.Conn, good *wellBehaved) {
		conns := many(t, 500, dial, func(i int) string {
			return []string{"G", "GET /v1/kv/default/k HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("y", 3000)}[i%3]
		})
		if took := good.batch(); took > time.Second {
			t.Errorf("a batch beside them took %v", took)
		}
		time.Sleep(11 * time.Second)
		ended(t, conns)
	})
}

// Bodies that stop coming, of every kind and many more than limits.requests, hold
// the others up for seconds.
func TestSlowBodies(t *testing.T) {
	kinds := []string{
		"PUT /v1/kv/default/small-%d HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nxxxx",
		"POST /v1/batch/lookup HTTP/1.1\r\nHost: x%d\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
		"POST /v1/nothing HTTP/1.1\r\nHost: x%d\r\nContent-Length: 100\r\n\r\n{",
		"GET /v1/kv/default/slow-%d HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n",
		"PUT /v1/kv/default/slow-%d HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\nxxxx",
		"POST /v1/batch/store?namespace=default&x=%d HTTP/1.1\r\nHost: x\r\nContent-Type: " + api.MediaFrames + "\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nxxxxx",
		"POST /v1/batch/store?namespace=default&family=%d HTTP/1.1\r\nHost: x\r\nContent-Type: " + api.MediaFrames + "\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"key\"",
		"POST /v1/batch/lookup HTTP/1.1\r\nHost: x%d\r\nContent-Type: application/json\r\nContent-Length: 40000000\r\n\r\n{\"namespace\"",
		"POST /v1/batch/lookup?namespace=default HTTP/1.1\r\nHost: x%d\r\nContent-Type: text/plain\r\nContent-Length: 40000000\r\n\r\nkey\n",
	}
	abused(t, func(t *testing.T, r *rig, dial func() net.Conn, good *wellBehaved) {
		conns := many(t, 400, dial, func(i int) string { return fmt.Sprintf(kinds[i%len(kinds)], i) })
		synctest.Wait()
		if got := r.srv.places.used.Load(); got != 64 {
			t.Errorf("%d data requests are executing, limits.requests is 64", got)
		}
		if took := good.batch(); took > 10*time.Second {
			t.Errorf("a batch beside them took %v", took)
		}
		time.Sleep(time.Minute)
		ended(t, conns)
	})
}

// Uploads that stop in the middle, holding all of the stream memory, many more
// waiting for some.
func TestHalfOpenUploads(t *testing.T) {
	for name, sent := range map[string]int{"nothing sent": 0, "a part sent": 100_000} {
		t.Run(name, func(t *testing.T) {
			abused(t, func(t *testing.T, r *rig, dial func() net.Conn, good *wellBehaved) {
				conns := many(t, 60, dial, func(i int) string {
					return fmt.Sprintf("PUT /v1/kv/default/half-%d HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", i, 6<<20)
				})
				for _, c := range conns {
					go func() { _, _ = io.CopyN(c, zeros{}, int64(sent)) }() // as far as it is taken
				}
				synctest.Wait()
				if got, want := r.arena.InUse(), int64(min(sent, 1)*5*6<<20); got != want {
					t.Errorf("%d MiB of stream memory are held, want %d", got>>20, want>>20)
				}
				took := good.batch()
				t.Logf("a batch beside them took %v", took)
				if sent == 0 && took > 0 || took > 13*time.Second {
					t.Error("that is too long")
				}
				time.Sleep(2 * time.Minute)
				ended(t, conns)
				if got := decode[api.ListResponse](t, do(t, good.client, "GET", "/v1/kv/default", nil)); len(got.Entries) != 0 {
					t.Errorf("stored: %+v", got.Entries)
				}
			})
		})
	}
}

// Readers that stop, each with a batch larger than the stream memory.
func TestStalledReaders(t *testing.T) {
	abused(t, func(t *testing.T, r *rig, dial func() net.Conn, good *wellBehaved) {
		keys := make([]string, 8)
		for i := range keys {
			keys[i] = fmt.Sprint("there-", i)
			mustStore(t, good.client, 5<<20, keys[i])
		}
		body := fmt.Sprintf(`{"namespace":"default","keys":%s}`, quoted(keys))
		conns := many(t, 50, dial, func(int) string {
			return fmt.Sprintf("POST /v1/batch/load HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		})
		synctest.Wait()
		if got := r.arena.InUse(); got < 16<<20 {
			t.Errorf("only %d MiB are held: not what this test is for", got>>20)
		}
		took := good.batch()
		t.Logf("a batch beside them took %v", took)
		if took > 13*time.Second {
			t.Error("that is too long")
		}
		time.Sleep(2 * time.Minute)
		ended(t, conns)
		// What they referred to is free to go.
		do(t, good.client, "DELETE", "/v1/kv/default/there-0?force=true", nil).ok(t)
		synctest.Wait()
		if c := r.slab.Counts(); c.Retired != 0 {
			t.Errorf("slots: %+v", c)
		}
	})
}

// One reader that stops, with a batch larger than the stream memory, holds a quarter
// of that and pins nothing: nobody beside it waits, for memory or for anything else,
// and what it refers to can be removed.
func TestOneStalledReader(t *testing.T) {
	abused(t, func(t *testing.T, r *rig, dial func() net.Conn, good *wellBehaved) {
		keys := make([]string, 24)
		for i := range keys {
			keys[i] = fmt.Sprint("there-", i)
			mustStore(t, good.client, 2<<20, keys[i])
		}
		body := fmt.Sprintf(`{"namespace":"default","keys":%s}`, quoted(keys))
		conns := many(t, 1, dial, func(int) string {
			return fmt.Sprintf("POST /v1/batch/load HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		})
		synctest.Wait()
		if got, most := r.arena.InUse(), r.arena.Cap()/4; got == 0 || got > most {
			t.Errorf("it holds %d MiB of stream memory, want at most %d", got>>20, most>>20)
		}
		if took := good.batch(); took > 0 {
			t.Errorf("a batch beside it took %v", took)
		}
		if st := r.store.Status(); st.Pins != 0 {
			t.Errorf("%d pins", st.Pins)
		}
		post(t, good.client, "/v1/batch/remove", body, nil).ok(t)
		time.Sleep(time.Minute)
		ended(t, conns)
		if c := r.slab.Counts(); c.Free != c.Total {
			t.Errorf("slots: %+v", c)
		}
	})
}

// Clients that never read what they are told, refusals or answers, with ever more
// requests behind.
func TestAnswersNobodyReads(t *testing.T) {
	for name, request := range map[string]string{
		"refusal of a path":   "GET /v1/nothing HTTP/1.1\r\nHost: x\r\n\r\n",
		"refusal of a body":   "PUT /v1/kv/nowhere/k HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
		"refusal of a header": "GET /v1/info HTTP/1.1\r\nBroken\r\n\r\n",
		"answer":              "GET /v1/info HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			abused(t, func(t *testing.T, _ *rig, dial func() net.Conn, good *wellBehaved) {
				conns := many(t, 100, dial, func(int) string { return request })
				for _, c := range conns {
					go func() { _, _ = io.WriteString(c, strings.Repeat(request, 100)) }() // until the connection ends
				}
				if took := good.batch(); took > 10*time.Second {
					t.Errorf("a batch beside them took %v", took)
				}
				time.Sleep(30 * time.Second)
				ended(t, conns)
			})
		})
	}
}

// Requests that are sent without waiting for answers are answered, each with its
// own, in order.
func TestPipelinedRequests(t *testing.T) {
	abused(t, func(t *testing.T, _ *rig, dial func() net.Conn, good *wellBehaved) {
		const n = 300
		c := newRaw(t, dial())
		defer c.conn.Close()
		go func() {
			for i := range n {
				_, err := fmt.Fprintf(c.conn, "PUT /v1/kv/default/p%d HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n%04dGET /v1/kv/default/p%[1]d HTTP/1.1\r\nHost: x\r\n\r\nGET /v1/nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nGET / HTTDELETE /v1/kv/default/p%[1]d HTTP/1.1\r\nHost: x\r\n\r\n", i, i)
				if err != nil {
					return
				}
			}
		}()
		for i := range n {
			for j, want := range []int{200, 200, 404, 200} {
				resp, err := http.ReadResponse(c.r, nil)
				must(t, err)
				b, err := io.ReadAll(resp.Body)
				must(t, err)
				if resp.StatusCode != want || j == 1 && string(b) != fmt.Sprintf("%04d", i) {
					t.Fatalf("request %d of round %d: got %d %.100q", j, i, resp.StatusCode, b)
				}
			}
		}
		good.batch()
	})
}
