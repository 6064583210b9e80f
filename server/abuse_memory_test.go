// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/rawblockd/rawblockd/api"
)

// A batch of many more keys than there may be is refused as such, in every form,
// and is not kept in memory meanwhile.
func TestHundredThousandKeys(t *testing.T) {
	const n = 100_000
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("model/layer/%064d", i)
	}
	asJSON, err := json.Marshal(map[string]any{"namespace": "default", "keys": keys})
	must(t, err)
	var asFrames bytes.Buffer
	for _, k := range keys {
		asFrames.Write(frames(k, []byte("x")).Bytes())
	}
	forms := 8
	if testing.Short() {
		forms = 2 // the race detector makes much of it
	}
	r := newRig(t, func(o *rigOptions) {
		o.batchKeys, o.jsonBytes, o.buffers = 16384, 256<<20, 128<<20
	})
	client := r.unix()
	touch(t, r)
	before := inUse()
	for i, c := range []struct {
		path, kind string
		body       []byte
	}{
		{"store?namespace=default", api.MediaFrames, asFrames.Bytes()},
		{"lookup", api.MediaJSON, asJSON},
		{"load", api.MediaJSON, asJSON},
		{"remove", api.MediaJSON, asJSON},
		{"pin", api.MediaJSON, asJSON},
		{"touch", api.MediaJSON, asJSON},
		{"unpin", api.MediaJSON, bytes.Replace(asJSON, []byte("{"), []byte(`{"lease":"x",`), 1)},
		{"lookup?namespace=default", api.MediaText, []byte(strings.Join(keys, "\n"))},
	} {
		if i >= forms {
			break
		}
		a := do(t, client, "POST", "/v1/batch/"+c.path, bytes.NewReader(c.body), "Content-Type", c.kind)
		a.want(t, 413, "too_many_keys", "keys")
		if a.closes {
			t.Errorf("%s: the connection was closed", c.path)
		}
	}
	if more := inUse() - before; more > 16<<20 {
		t.Errorf("afterwards %d MiB more are in use", more>>20)
	}
	if st := r.store.Status(); st.Entries != 0 {
		t.Errorf("%d entries were stored", st.Entries)
	}
	if n := r.srv.texts.used.Load(); n != 0 {
		t.Errorf("%d bytes of bodies are charged", n)
	}
}

// A JSON body of a gibibyte is refused, declared or not, for no more memory than the
// largest body that there may be, and its connection ends once that much was read
// in vain that a client with a payload could be in the middle of it.
func TestGibibyteOfJSON(t *testing.T) {
	const all, keys = 1 << 30, 2048
	r := newRig(t, func(o *rigOptions) { o.batchKeys, o.jsonBytes = keys, api.MaxJSONBody(keys) })
	client, addr := r.tcp()
	mustStore(t, client, 1<<20, "a")
	part := []byte(strings.Repeat(" ", 1<<20))
	for name, c := range map[string]struct {
		header, before, after string
		read                  int64 // of the body by the server, at most
	}{
		"declared": {fmt.Sprintf("Content-Length: %d\r\n", all), "", "", r.o.payload + 1<<20},
		"chunked":  {"Transfer-Encoding: chunked\r\n", "100000\r\n", "\r\n", r.o.payload + 1<<20 + api.MaxJSONBody(keys) + 1},
	} {
		t.Run(name, func(t *testing.T) {
			conn := dialRaw(t, addr)
			conn.write("POST /v1/batch/lookup HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + c.header + "\r\n")
			before, most := inUse(), int64(0)
			sent := int64(0)
			for sent < all {
				if _, err := io.WriteString(conn.conn, c.before+string(part)+c.after); err != nil {
					break
				}
				sent += int64(len(part))
				if n := r.srv.texts.used.Load(); n > 0 && name == "declared" {
					t.Errorf("%d bytes are charged for a body that is known to be too large", n)
					break
				}
				if sent%(8<<20) == 0 {
					most = max(most, inUse()-before)
				}
			}
			// What the sockets hold was sent and not read.
			if socket := int64(16 << 20); sent > c.read+socket {
				t.Errorf("%d MiB went out before the connection ended, want at most %d", sent>>20, (c.read+socket)>>20)
			}
			if limit := 3 * api.MaxJSONBody(keys); most > limit {
				t.Errorf("%d MiB of memory were in use, want at most %d", most>>20, limit>>20)
			}
			if fs, _ := load(t, client, "a"); fs[0].Status != api.StatusOK {
				t.Errorf("a load beside it: %+v", fs)
			}
		})
	}
	if n := r.srv.texts.used.Load(); n != 0 {
		t.Errorf("%d bytes of bodies are charged", n)
	}
}

// Who comes from elsewhere, with a body each time, costs nothing but the reading.
func TestForeignersWithBodies(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.requests = 2 })
	client, _ := r.tcp()
	body := bytes.Repeat([]byte("x"), 1<<20)
	before := inUse()
	for i := range 20 {
		header, word, field := []string{"Host", "evil.example"}, "foreign_host", "Host"
		if i%2 == 0 {
			header, word, field = []string{"Origin", "http://evil.example"}, "foreign_origin", "Origin"
		}
		do(t, client, "PUT", fmt.Sprintf("/v1/kv/default/k%d", i), bytes.NewReader(body), header...).want(t, 403, word, field)
		do(t, client, "POST", "/v1/batch/store?namespace=default", frames("k", body), append(header, "Content-Type", api.MediaFrames)...).want(t, 403, word, field)
	}
	if more := inUse() - before; more > 8<<20 {
		t.Errorf("afterwards %d MiB more are in use", more>>20)
	}
	if st := r.store.Status(); st.Entries != 0 || counter(t, r.srv.metrics.refused.WithLabelValues("requests")) != 0 {
		t.Errorf("they stored %d entries, or took places", st.Entries)
	}
	mustStore(t, client, 1<<20, "a")
}
