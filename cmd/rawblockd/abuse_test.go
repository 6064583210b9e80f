// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/client"
	"github.com/rawblockd/rawblockd/config"
	"github.com/rawblockd/rawblockd/slab"
)

// pattern is n bytes that only this key has.
func pattern(key string, n int) []byte {
	line := []byte(fmt.Sprintf("%-63.63s\n", key))
	return bytes.Repeat(line, n/len(line)+1)[:n]
}

// dripping lets a MiB through at each tick.
type dripping struct {
	r    io.Reader
	tick *time.Ticker
	left int
}

func newDripping(r io.Reader, every time.Duration) *dripping {
	return &dripping{r: r, tick: time.NewTicker(every)}
}

func (d *dripping) Read(p []byte) (int, error) {
	if d.left == 0 {
		<-d.tick.C
		d.left = 1 << 20
	}
	n, err := d.r.Read(p[:min(len(p), d.left)])
	d.left -= n
	return n, err
}

// Eleven clients that trickle 24 MiB each over loopback finish, with the least memory
// there may be, which is for ten of them, and with the default. Once they are so slow
// that the eleventh waits for longer than it would if nothing moved.
func TestElevenTricklingClientsForReal(t *testing.T) {
	const clients, size = 11, 24 << 20
	dir := shortDir(t)
	c := testConfig(t, dir)
	c.Slabs[0].Device += ".large"
	if _, err := slab.Init(c.Slabs[0].Device, slab.InitOptions{SlotSize: int64(c.Slabs[0].SlotSize), Name: "test", Size: 2*2*clients*(size+1<<20) + 8<<20}); err != nil {
		t.Fatal(err)
	}
	c.Listen.HTTP = "127.0.0.1:0"
	c.Limits.Payload = 128 * config.MiB
	for i, budget := range []config.Size{256 * config.MiB, 512 * config.MiB} {
		if i > 0 && testing.Short() {
			break
		}
		c.Limits.StreamBytes = budget
		p := startProcess(t, c)
		tr := &http.Transport{}
		hc := &http.Client{Transport: tr, Timeout: time.Minute}
		url := func(key string) string { return "http://" + p.http + "/v1/kv/default/" + key }
		put := func(key string, body io.Reader) error {
			req, err := http.NewRequest("PUT", url(key), body)
			if err != nil {
				return err
			}
			req.ContentLength = size
			resp, err := hc.Do(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			if resp.StatusCode != http.StatusOK {
				return fmt.Errorf("got %d %s", resp.StatusCode, b)
			}
			return err
		}
		get := func(key string) error {
			resp, err := hc.Get(url(key))
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			b, err := io.ReadAll(newDripping(resp.Body, 25*time.Millisecond))
			if err == nil && (resp.StatusCode != http.StatusOK || !bytes.Equal(b, pattern(key, size))) {
				err = fmt.Errorf("got %d with %d bytes", resp.StatusCode, len(b))
			}
			return err
		}
		all := func(what string, request func(key string) error) {
			var wg sync.WaitGroup
			for j := range clients {
				key := fmt.Sprint("key-", j, "-", i)
				wg.Go(func() {
					if err := request(key); err != nil {
						t.Errorf("%s of %q with %v: %v", what, key, budget, err)
					}
				})
			}
			wg.Wait()
		}
		pace := 25 * time.Millisecond
		if i == 0 && !testing.Short() {
			pace = 250 * time.Millisecond
		}
		all("put", func(key string) error { return put(key, newDripping(bytes.NewReader(pattern(key, size)), pace)) })
		all("get", get)
		tr.CloseIdleConnections()
		p.stop()
	}
}

// Everything at once against the real daemon: its memory stays within what its
// limits say, a well-behaved client is served meanwhile, and afterwards it is as
// before.
func TestAbuse(t *testing.T) {
	c := testConfig(t, shortDir(t))
	c.Listen.HTTP, c.Listen.Admin = "127.0.0.1:0", ""
	c.Limits.BatchKeys, c.Limits.JSONBytes, c.Limits.Requests = 4096, 32*config.MiB, 128
	p := startProcess(t, c)
	good, err := client.New("http://"+p.http, "default")
	if err != nil {
		t.Fatal(err)
	}
	defer good.Close()
	goodTurn(t, good, "first")
	for _, k := range []string{"stays-0", "stays-1"} {
		if _, err := good.Put(t.Context(), k, bytes.NewReader(pattern(k, 4<<20)), 4<<20, client.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	before := p.memory("VmRSS")

	var conns []net.Conn
	open := func(n int, request string, args ...any) {
		for range n {
			conn, err := net.Dial("tcp", p.http)
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, conn)
			if _, err := fmt.Fprintf(conn, strings.ReplaceAll(request, "\n", "\r\n"), args...); err != nil {
				t.Fatal(err)
			}
		}
	}
	open(1000, "") // idle
	open(200, "GET /v1/kv/default/k HTTP/1.1\nHo")
	open(200, "POST /v1/batch/lookup HTTP/1.1\nHost: localhost\nContent-Type: application/json\nContent-Length: 10000000\n\n%s", strings.Repeat(" ", 100<<10))
	open(100, "PUT /v1/kv/default/half HTTP/1.1\nHost: localhost\nContent-Length: 8000000\n\n%s", strings.Repeat("x", 100<<10))
	open(100, "PUT /v1/kv/default/silent HTTP/1.1\nHost: localhost\nContent-Length: 8000000\n\n")
	load := `{"namespace":"default","keys":["stays-0","stays-1","stays-0","stays-1"]}`
	open(50, "POST /v1/batch/load HTTP/1.1\nHost: localhost\nContent-Type: application/json\nContent-Length: %d\n\n%s", len(load), load)
	open(50, strings.Repeat("GET /v1/nothing HTTP/1.1\nHost: localhost\n\n", 100))
	var floods sync.WaitGroup
	for _, header := range []string{"Content-Length: 1073741824\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n40000000\r\n"} {
		open(1, "POST /v1/batch/lookup HTTP/1.1\nHost: localhost\nContent-Type: application/json\n%s", header)
		conn := conns[len(conns)-1]
		floods.Go(func() { _, _ = io.Copy(conn, spaces{}) }) // until the daemon has had enough
	}
	goodTurn(t, good, "beside all that")
	floods.Wait()
	goodTurn(t, good, "afterwards")
	for _, conn := range conns {
		_ = conn.Close()
	}
	// Stream memory and bodies, which the limits bound, with as much again for what
	// the collector has not got to; and a thousand connections and more.
	limit := 2*int64(c.Limits.StreamBytes+c.Limits.JSONBytes) + int64(len(conns))*64<<10
	grown := p.memory("VmHWM") - before
	t.Logf("memory before %d MiB, grown by %d MiB at most", before>>20, grown>>20)
	if grown > limit && !testing.Short() { // under the race detector memory is several times as much
		t.Errorf("memory grew by %d MiB, the limits allow %d", grown>>20, limit>>20)
	}
	if left, err := good.List(t.Context(), "", 10); err != nil || len(left.Entries) != 2 {
		t.Errorf("left behind: %+v, %v", left.Entries, err)
	}
}

// spaces is an endless text that JSON allows before its end.
type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// goodTurn stores, loads and removes a batch as a client does that keeps all rules: when
// it is told to come again it does.
func goodTurn(t *testing.T, c *client.Client, when string) {
	t.Helper()
	keys := []string{"big-0", "big-1", "small"}
	sizes := []int{4 << 20, 4 << 20, 1000}
	again(t, when+": store", func() error {
		var items []client.Item
		for i, k := range keys {
			items = append(items, client.Item{Key: k, Bytes: int64(sizes[i]), Body: bytes.NewReader(pattern(k, sizes[i]))})
		}
		got, err := c.Store(t.Context(), slices.Values(items), client.StoreOptions{Overwrite: true})
		if err == nil && got.OK != len(keys) {
			err = fmt.Errorf("got %+v", got)
		}
		return err
	})
	again(t, when+": load", func() error {
		i := 0
		for l, err := range c.Load(t.Context(), keys) {
			if err != nil {
				return err
			}
			if l.Status == api.StatusBusy {
				return &client.Error{RetryAfter: time.Second}
			}
			b, err := io.ReadAll(l.Body)
			if err != nil || !bytes.Equal(b, pattern(keys[i], sizes[i])) {
				return fmt.Errorf("%q: %s, %d bytes, %w", l.Key, l.Status, len(b), err)
			}
			i++
		}
		return nil
	})
	again(t, when+": remove", func() error {
		got, err := c.Remove(t.Context(), keys, true)
		if err == nil && got.Removed != len(keys) {
			err = fmt.Errorf("got %+v", got)
		}
		return err
	})
}

// again makes a request until it is not refused for now, for half a minute.
func again(t *testing.T, what string, request func() error) {
	t.Helper()
	limit := time.After(30 * time.Second)
	for {
		err := request()
		var e *client.Error
		if err == nil {
			return
		}
		if !errors.As(err, &e) || e.RetryAfter == 0 {
			t.Fatalf("%s: %v", what, err)
		}
		select {
		case <-time.After(e.RetryAfter):
		case <-limit:
			t.Fatalf("%s: still refused: %v", what, err)
		}
	}
}
