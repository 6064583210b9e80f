// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/rawblockd/rawblockd/api"
)

// counter is the value of one metric.
func counter(t testing.TB, c prometheus.Counter) float64 {
	t.Helper()
	var m dto.Metric
	must(t, c.Write(&m))
	return m.GetCounter().GetValue()
}

// Beyond limits.requests data requests are refused, and nothing else is. The
// refusal reads what is left of the body, so that the client has its answer and the
// connection goes on.
func TestTooManyRequests(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.requests = 2 })
	c := r.unix()
	admin := r.admin()
	mustStore(t, c, 1000, "a", "b")
	release := r.dev.Hang(0, r.o.size)
	done := make(chan answer)
	for _, request := range []func() answer{
		func() answer { return do(t, c, "GET", "/v1/kv/default/a", nil) },
		func() answer {
			return post(t, c, "/v1/batch/load", `{"namespace":"default","keys":["b"]}`, nil)
		},
	} {
		go func() { done <- request() }()
	}
	r.dev.AwaitInFlight(2)
	big := bytes.Repeat([]byte("x"), 6<<20)
	for name, request := range map[string]func() answer{
		"get":  func() answer { return do(t, c, "GET", "/v1/kv/default/a", nil) },
		"put":  func() answer { return do(t, c, "PUT", "/v1/kv/default/c", bytes.NewReader(big)) },
		"list": func() answer { return do(t, c, "GET", "/v1/kv/default", nil) },
		"lookup": func() answer {
			return post(t, c, "/v1/batch/lookup", `{"namespace":"default","keys":["a"]}`, nil)
		},
		"store":  func() answer { return storeFrames(t, c, "namespace=default", frames("c", big)) },
		"chunks": func() answer { return storeFrames(t, c, "namespace=default", io.MultiReader(frames("c", big))) },
	} {
		a := request()
		a.want(t, 429, "overloaded", "")
		if got := a.header.Get("Retry-After"); got != "1" || a.closes {
			t.Errorf("%s: Retry-After %q, connection closed: %v", name, got, a.closes)
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/v1/info", "/v1/status", "/v1/slabs", "/v1/requests", "/openapi.json", "/v1/leases", "/v1/namespaces"} {
		do(t, c, "GET", path, nil).ok(t)
	}
	for _, path := range []string{"/healthz", "/readyz", "/v1/status", "/metrics"} {
		do(t, admin, "GET", path, nil).ok(t)
	}
	do(t, c, "POST", "/v1/leases/none/release", nil).ok(t)
	if got := counter(t, r.srv.metrics.refused.WithLabelValues("requests")); got != 6 {
		t.Errorf("counted %v refusals, want 6", got)
	}
	release()
	(<-done).ok(t)
	(<-done).ok(t)
	do(t, c, "GET", "/v1/kv/default/a", nil).ok(t)
	if n := r.srv.places.used.Load(); n != 0 {
		t.Errorf("%d places are still taken", n)
	}
}

// Every data route is bounded, whatever is added to it later.
func TestDataRoutesCount(t *testing.T) {
	r := newRig(t)
	free := map[string]bool{
		"/v1/leases": true, "/v1/leases/{id}": true, "/v1/leases/{id}/renew": true, "/v1/leases/{id}/release": true,
		"/v1/namespaces": true, "/v1/namespaces/{namespace}": true, "/v1/info": true, "/v1/events": true,
		"/healthz": true, "/readyz": true, "/openapi.json": true, "/v1/status": true, "/v1/slabs": true, "/v1/requests": true,
	}
	for _, rt := range r.srv.dataRoutes(Unix).routes {
		if !strings.HasPrefix(rt.pattern, "/v1/slabs/") && counts(rt.pattern) == free[rt.pattern] {
			t.Errorf("%s: counted %v", rt.pattern, counts(rt.pattern))
		}
	}
	for _, rt := range r.srv.adminRoutes().routes {
		if counts(rt.pattern) {
			t.Errorf("%s is counted", rt.pattern)
		}
	}
}

// JSON and text bodies are charged as they arrive, not as they are declared, and
// refused when all together are more than limits.json_bytes.
func TestJSONBytes(t *testing.T) {
	const limit = 100 * (3*api.MaxKeyBytes + 8) // of a body of 100 keys, less the slack
	paced(t, time.Minute, func(r *rig, dial func() net.Conn) {
		used := func(want int64) {
			t.Helper()
			synctest.Wait()
			if got := r.srv.texts.used.Load(); got != want {
				t.Errorf("%d bytes are charged, want %d", got, want)
			}
		}
		post := func(path, media string, declared, sent int) *raw {
			c := newRaw(t, dial())
			c.write(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", path, media, declared, strings.Repeat(" ", sent)))
			return c
		}
		silent := post("/v1/batch/lookup", api.MediaJSON, 300<<10, 0)
		used(firstBody)
		part := post("/v1/batch/remove", api.MediaJSON, 300<<10, 20<<10)
		used(3 * firstBody)
		text := post("/v1/batch/lookup?namespace=default", api.MediaText, 300<<10, 17<<10)
		used(5 * firstBody)
		small := post("/v1/batch/pin", api.MediaJSON, 600, 10)
		used(5*firstBody + 601)
		large := post("/v1/batch/lookup", api.MediaJSON, limit, 200<<10)
		used(5*firstBody + 601 + 256<<10)
		large.write(strings.Repeat(" ", limit-200<<10))
		a := large.answer()
		a.want(t, 429, "overloaded", "")
		if a.header.Get("Retry-After") != "1" || a.closes {
			t.Errorf("header %v, connection closed: %v", a.header, a.closes)
		}
		used(5*firstBody + 601)
		if got := counter(t, r.srv.metrics.refused.WithLabelValues("json_bytes")); got != 1 {
			t.Errorf("counted %v refusals", got)
		}
		for _, c := range []*raw{silent, part, text, small} {
			must(t, c.conn.Close())
		}
		used(0)
		// One whole body of the largest size there can be always has room.
		large.write(fmt.Sprintf("POST /v1/batch/lookup HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s%s",
			api.MaxJSONBody(100), strings.Repeat(" ", int(api.MaxJSONBody(100))-36), `{"namespace":"default","keys":["k"]}`))
		large.answer().ok(t)
		used(0)
		must(t, large.conn.Close())
	}, func(o *rigOptions) { o.jsonBytes = api.MaxJSONBody(100) })
}

// standing is a client that moves nothing more.
type standing struct {
	request string // and what of its body arrives
	bytes   int64  // of the answer that it takes
}

// Who else might want what a client holds, and asks for it for a minute.
func wantMemory(r *rig) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if buf, err := r.arena.Get(ctx, r.arena.Cap()); err == nil {
		buf.Release()
	}
}

func wantPlace(r *rig) {
	for range 60 {
		r.srv.places.take(1000)
		time.Sleep(time.Second)
	}
}

func wantText(r *rig) {
	for range 60 {
		r.srv.texts.take(1 << 30)
		time.Sleep(time.Second)
	}
}

func wantNothing(*rig) {}

// A client that stands still is cut off once others want what it holds, and left
// alone for its full time while nobody does.
func TestStandstillUnderPressure(t *testing.T) {
	const header, pressed = " HTTP/1.1\r\nHost: x\r\n", 3 * time.Second
	upload := standing{request: "PUT /v1/kv/default/new" + header + "Content-Length: 3000000\r\n\r\n" + strings.Repeat("x", 1000)}
	frame := standing{request: "POST /v1/batch/store?namespace=default" + header + "Content-Type: " + api.MediaFrames +
		"\r\nContent-Length: 3000000\r\n\r\n" + `{"key":"new","bytes":2000000}` + "\nxx"}
	line := standing{request: "POST /v1/batch/store?namespace=default" + header + "Content-Type: " + api.MediaFrames +
		"\r\nContent-Length: 3000000\r\n\r\n" + `{"key":"new","bytes":2000000}` + "\n"}
	download := standing{request: "GET /v1/kv/default/there" + header + "\r\n", bytes: 100_000}
	batch := standing{request: "POST /v1/batch/load" + header + "Content-Type: application/json\r\nContent-Length: 40\r\n\r\n" +
		`{"namespace":"default","keys":["there"]}`, bytes: 100_000}
	body := standing{request: "POST /v1/batch/lookup" + header + "Content-Type: application/json\r\nContent-Length: 40000\r\n\r\n{"}
	silent := standing{request: "PUT /v1/kv/default/new" + header + "Content-Length: 3000000\r\n\r\n"}
	for name, c := range map[string]struct {
		standing
		want      func(r *rig)
		direction string
		wanted    bool
	}{
		"upload, memory":     {upload, wantMemory, "in", true},
		"frame, memory":      {frame, wantMemory, "in", true},
		"frame, text":        {frame, wantText, "in", false},
		"line only, memory":  {line, wantMemory, "in", false}, // holds none
		"download, memory":   {download, wantMemory, "out", true},
		"batch load, memory": {batch, wantMemory, "out", true},
		"silent, memory":     {silent, wantMemory, "in", false}, // holds none
		"json, memory":       {body, wantMemory, "in", false},
		"upload, places":     {upload, wantPlace, "in", true},
		"silent, places":     {silent, wantPlace, "in", true},
		"download, places":   {download, wantPlace, "out", true},
		"json, places":       {body, wantPlace, "in", true},
		"json, text":         {body, wantText, "in", true},
		"upload, text":       {upload, wantText, "in", false},
		"upload, nobody":     {upload, wantNothing, "in", false},
		"download, nobody":   {download, wantNothing, "out", false},
	} {
		t.Run(name, func(t *testing.T) {
			log := &logLines{}
			paced(t, time.Hour, func(r *rig, dial func() net.Conn) {
				mustStore(t, dialing(t, dial), 3<<20, "there")
				client := newRaw(t, dial())
				defer client.conn.Close()
				client.write(c.request)
				must(t, second(io.CopyN(io.Discard, client.conn, c.bytes)))
				synctest.Wait()
				began := time.Now()
				time.Sleep(2 * pressed) // nobody wants anything yet, and so this is no fault
				if text := log.all(); text != "" {
					t.Errorf("cut off while nobody waited: %s", text)
				}
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					c.want(r)
				}()
				why, lowest, most := "pace", 10*time.Second, 12*time.Second
				if c.wanted {
					why, lowest, most = "wanted", 2*pressed, 3*pressed
				}
				cut := r.srv.metrics.cut.WithLabelValues(c.direction, why)
				for counter(t, cut) == 0 && time.Since(began) < time.Minute {
					time.Sleep(50 * time.Millisecond)
				}
				if took := time.Since(began); took < lowest || took > most {
					t.Errorf("cut off after %v, want between %v and %v", took, lowest, most)
				}
				if c.direction == "in" {
					client.answer().want(t, 408, "body_too_slow", "")
				}
				synctest.Wait()
				log.want(t, `msg="client cut off: `)
				<-ended
			}, log.take, func(o *rigOptions) { o.requests, o.jsonBytes, o.pace.Pressed = 10, 1<<20, pressed })
		})
	}
}

// A client that moves, however little, is nobody's fault: the pace alone judges it.
func TestMovingUnderPressure(t *testing.T) {
	paced(t, time.Hour, func(r *rig, dial func() net.Conn) {
		client := newRaw(t, dial())
		defer client.conn.Close()
		go wantPlace(r)
		client.write("PUT /v1/kv/default/new HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n")
		for range 4 {
			time.Sleep(2 * time.Second)
			client.write("x")
		}
		client.write("xxxxxx")
		client.answer().ok(t)
		time.Sleep(time.Hour)
	}, func(o *rigOptions) { o.requests, o.pace.Pressed = 10, 3*time.Second })
}

// A hung device is not the client's fault: who waits for it is not cut off.
func TestWaitingForTheDeviceUnderPressure(t *testing.T) {
	paced(t, time.Hour, func(r *rig, dial func() net.Conn) {
		client := dialing(t, dial)
		mustStore(t, client, 3<<20, "there")
		release := r.dev.Hang(0, r.o.size)
		time.AfterFunc(12*time.Second, release)
		go wantPlace(r)
		go wantMemory(r)
		do(t, client, "GET", "/v1/kv/default/there", nil).ok(t)
		time.Sleep(time.Hour)
	}, func(o *rigOptions) { o.requests, o.pace.Pressed = 10, 3*time.Second })
}
