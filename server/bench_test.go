// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/rawblockd/rawblockd/api"
)

// BenchmarkLoad streams 8 × 8 MiB over a unix socket. The device is memory, so
// this is the price of everything but the device; BenchmarkSocket is the
// socket's alone.
func BenchmarkLoad(b *testing.B) {
	r := newRig(b, func(o *rigOptions) { o.size, o.buffers = 256<<20, 128<<20 })
	c := r.unix()
	keys := make(api.Keys, 8)
	for i := range keys {
		keys[i] = fmt.Sprint(i)
	}
	mustStore(b, c, 8<<20, keys...)
	body, err := json.Marshal(api.LoadRequest{Batch: api.Batch{Namespace: "default", Keys: keys}})
	must(b, err)
	buf := make([]byte, 1<<20)
	b.SetBytes(64 << 20)
	for b.Loop() {
		resp, err := c.Post("http://localhost/v1/batch/load", api.MediaJSON, bytes.NewReader(body))
		must(b, err)
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{resp.Body}, buf)
		must(b, err)
		resp.Body.Close()
		if n < 64<<20 {
			b.Fatalf("got %d bytes", n)
		}
	}
}

// BenchmarkStore is BenchmarkLoad the other way, overwriting.
func BenchmarkStore(b *testing.B) {
	r := newRig(b, func(o *rigOptions) { o.size, o.buffers = 256<<20, 128<<20 })
	c := r.unix()
	var items []any
	for i := range 8 {
		items = append(items, fmt.Sprint(i), data(fmt.Sprint(i), 8<<20))
	}
	body := frames(items...).Bytes()
	b.SetBytes(64 << 20)
	for b.Loop() {
		storeFrames(b, c, "namespace=default&overwrite=true", bytes.NewReader(body)).ok(b)
	}
}

// BenchmarkSocket moves 64 MiB in writes of 1 MiB over a bare unix socket.
func BenchmarkSocket(b *testing.B) {
	l := listen(b)
	chunk := make([]byte, 1<<20)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		for {
			if _, err := c.Write(chunk); err != nil {
				return
			}
		}
	}()
	c, err := net.Dial("unix", l.Addr().String())
	must(b, err)
	defer l.Close()
	defer c.Close()
	buf := make([]byte, 1<<20)
	b.SetBytes(64 << 20)
	for b.Loop() {
		for left := 64 << 20; left > 0; {
			n, err := c.Read(buf[:min(left, len(buf))])
			must(b, err)
			left -= n
		}
	}
}

// BenchmarkLookup is one lookup over a unix socket, in either form. Half of the
// keys are stored.
func BenchmarkLookup(b *testing.B) {
	for _, n := range []int{512, 10_000} {
		keys := make(api.Keys, n)
		for i := range keys {
			keys[i] = fmt.Sprintf("%0110d", i)
		}
		text, err := json.Marshal(api.LookupRequest{Batch: api.Batch{Namespace: "default", Keys: keys}})
		must(b, err)
		for _, form := range []struct {
			name, path, media, accept string
			body                      []byte
		}{
			{"json", "/v1/batch/lookup", api.MediaJSON, api.MediaJSON, text},
			{"compact", "/v1/batch/lookup?namespace=default", api.MediaText, api.MediaOctets, api.AppendKeyList(nil, keys)},
		} {
			b.Run(fmt.Sprint(form.name, "/", n), func(b *testing.B) {
				r := newRig(b, func(o *rigOptions) { o.batchKeys, o.size = 16384, 2<<30 })
				c := r.unix()
				for from := 0; from < n/2; from += 1000 {
					mustStore(b, c, 1, keys[from:min(from+1000, n/2)]...)
				}
				for b.Loop() {
					req, err := http.NewRequest("POST", "http://localhost"+form.path, bytes.NewReader(form.body))
					must(b, err)
					req.Header.Set("Content-Type", form.media)
					req.Header.Set("Accept", form.accept)
					send(b, c, req).ok(b)
				}
			})
		}
	}
}
