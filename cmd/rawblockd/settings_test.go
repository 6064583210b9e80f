// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/client"
	"github.com/rawblockd/rawblockd/config"
)

// What the file says of leases, limits and slow requests is what the daemon does.
func TestSettingsReachTheDaemon(t *testing.T) {
	dir := shortDir(t)
	c := testConfig(t, dir)
	const slot = 2 * config.MiB // of the slab's
	if c.Slabs[0].SlotSize != slot {
		t.Fatalf("slots of %v", c.Slabs[0].SlotSize)
	}
	c.Namespaces[0].Quota, c.Namespaces[0].TTL = 8*slot, time.Hour
	c.Leases = config.Leases{DefaultTTL: 7 * time.Second, MaxTTL: 20 * time.Second, MaxPinned: 0.25}
	c.Limits.BatchKeys, c.Limits.RequestDeadline, c.Log.Slow = 9, 59*time.Second, time.Nanosecond
	s := serve(t, "--config", write(t, c))
	k := connect(t, "unix:"+c.Listen.Unix)

	info, err := k.Info(t.Context())
	if l := info.Limits; err != nil || l.BatchKeys != 9 || l.RequestDeadlineMS != 59_000 || l.Payload != int64(c.Limits.Payload) || l.StreamBytes != int64(c.Limits.StreamBytes) {
		t.Errorf("limits: %+v, %v", l, err)
	}
	keys := []string{"a", "b", "c"}
	for _, key := range keys {
		if _, err := k.Put(t.Context(), key, strings.NewReader("x"), 1, client.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for asked, want := range map[time.Duration]int64{0: 7_000, time.Hour: 20_000} {
		got, err := k.Pin(t.Context(), keys, client.Lease{TTL: asked})
		if err != nil || got.Lease == nil || got.Lease.TTLMS != want || got.Lease.Entries != 2 || got.Results[2].Status != api.StatusBusy {
			t.Fatalf("pin for %v: %+v, %v; want %d ms, and two of three as a quarter of the quota is two slots", asked, got, err, want)
		}
		if _, err := k.Release(t.Context(), got.Lease.ID); err != nil {
			t.Error(err)
		}
	}
	if e, err := k.Explain(t.Context(), "a"); err != nil || !e.ExpiresAt.Equal(e.StoredAt.Add(time.Hour)) {
		t.Errorf("%+v, %v: want it to expire in an hour", e, err)
	}
	s.wait(s.log.await(`msg="slow request" method=PUT`))
	s.end()
}

// However many connections there are, the daemon keeps descriptors for itself: those
// that have been idle for longest make room, and requests are answered.
func TestConnectionsLeaveDescriptors(t *testing.T) {
	c := testConfig(t, shortDir(t))
	c.Listen.HTTP = "127.0.0.1:0"
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := startCommand(t, exec.Command("sh", "-c", `ulimit -n 200 && exec "$0" "$@"`, self, "serve", "--config", write(t, c)))
	said := p.log.await("too many connections")
	for range 250 {
		conn, err := net.Dial("tcp", p.http)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := io.ReadFull(conn, make([]byte, len("HTTP/1.1 200"))); err != nil {
			t.Fatalf("no answer: %v", err)
		}
	}
	select {
	case <-said:
	case <-time.After(time.Minute):
		t.Error("the log does not say that there are too many")
	}
	if got := p.log.String(); !strings.Contains(got, "connections=100") {
		t.Errorf("of 200 descriptors half are for connections: %s", got)
	}
	for i := range 10 {
		req, err := http.NewRequest("PUT", fmt.Sprintf("http://%s/v1/kv/default/k%d", p.http, i), strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		req.Close = true
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("a store beside them: %s", resp.Status)
		}
	}
	p.stop()
}

// A request over TCP may name this host, and no other name that it does not have.
func TestHostOfRequests(t *testing.T) {
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	c := testConfig(t, shortDir(t))
	c.Listen.HTTP, c.Listen.Admin = "127.0.0.1:0", "127.0.0.1:0"
	s := serve(t, "--config", write(t, c))
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	for _, listener := range []string{"http", "admin"} {
		for host, want := range map[string]int{own: 200, own + ":9200": 200, own + ".example.com": 403} {
			req, err := http.NewRequest("GET", "http://"+s.address(listener)+"/v1/info", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = host
			resp, err := (&http.Client{Transport: tr}).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%s with Host %s: got %s, want %d", listener, host, resp.Status, want)
			}
		}
	}
	s.end()
}
