// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/internal/simdev"
	"github.com/rawblockd/rawblockd/ioengine"
	"github.com/rawblockd/rawblockd/meta"
	"github.com/rawblockd/rawblockd/slab"
	"github.com/rawblockd/rawblockd/store"
)

// rig is a server over a real store on a simulated device. Its end checks that
// no slot, pin or buffer was left behind.
type rig struct {
	t     testing.TB
	o     rigOptions
	dev   *simdev.Device
	eng   ioengine.Engine
	slab  *slab.Slab
	db    *meta.DB
	arena *ioengine.Arena
	store *store.Store
	srv   *Server
	https []*http.Server
	ended []chan struct{}
	conns *watcher
}

type rigOptions struct {
	size      int64
	payload   int64
	buffers   int64
	batchKeys int
	requests  int   // 0: any number
	jsonBytes int64 // 0: any number
	conns     int   // 0: any number
	pace      Pace
	deadline  time.Duration
	notReady  bool
	log       *slog.Logger
	spaces    []string // beside "default" and "other"
	metaFS    vfs.FS
}

const testInstance = "instance-of-this-test"

func newRig(t testing.TB, change ...func(*rigOptions)) *rig {
	t.Helper()
	o := rigOptions{size: 64 << 20, payload: 8 << 20, buffers: 32 << 20, batchKeys: 100, deadline: time.Minute, metaFS: vfs.NewMem(), log: slog.New(slog.DiscardHandler)}
	for _, c := range change {
		c(&o)
	}
	r := &rig{t: t, o: o, conns: &watcher{}}
	r.dev = simdev.New(simdev.Options{Size: o.size, Block: 512})
	must(t, second(slab.InitDevice(r.dev, slab.InitOptions{SlotSize: 256 << 10, Name: "fast0"})))
	var err error
	r.db, err = meta.Open(meta.Options{Path: "meta", FS: o.metaFS, CacheSize: 1 << 20, MemTableSize: 256 << 10, Log: o.log})
	must(t, err)
	r.arena, err = ioengine.NewArena(o.buffers)
	must(t, err)
	r.eng = ioengine.NewPread(r.dev, ioengine.PreadOptions{Workers: 8, InflightBytes: 64 << 20})
	r.slab, err = slab.Open(r.dev, r.eng, slab.Options{Name: "fast0", Log: o.log})
	must(t, err)
	spaces := []store.Namespace{{Name: "default"}, {Name: "other"}}
	for _, name := range o.spaces {
		spaces = append(spaces, store.Namespace{Name: name})
	}
	r.store, err = store.Open(context.Background(), store.Options{
		Slabs: []store.SlabConfig{{Slab: r.slab}}, Meta: r.db, Buffers: r.arena,
		Namespaces: spaces,
		DefaultTTL: 30 * time.Second, MaxTTL: 10 * time.Minute, MaxPinned: 0.5, MaxPayload: o.payload,
		Log: o.log, SyncInterval: time.Hour,
	})
	must(t, err)
	r.srv = New(Options{
		Limits: Limits{BatchKeys: o.batchKeys, Payload: o.payload, StreamBytes: o.buffers, JSONBytes: o.jsonBytes, Requests: o.requests, RequestDeadline: o.deadline},
		Pace:   o.pace, Conns: o.conns, Instance: testInstance, Version: "test", Hosts: []string{"kv.example"}, Log: o.log,
		Engine: func(string) *api.EngineStats {
			st := r.eng.Stats()
			return &api.EngineStats{Name: st.Name, Depth: st.Depth, Block: r.dev.Geometry().Block, WrittenBytes: st.Bytes[ioengine.Write]}
		},
	})
	if !o.notReady {
		r.srv.SetStore(r.store)
	}
	t.Cleanup(r.end)
	return r
}

// end stops everything; what is left behind is a failure.
func (r *rig) end() {
	r.t.Helper()
	if r.t.Failed() {
		r.dev.ReleaseAll() // else what hangs still would keep it from the end
	}
	for i, h := range r.https {
		if err := h.Shutdown(context.Background()); err != nil {
			r.t.Error(err)
		}
		<-r.ended[i]
	}
	for _, l := range r.store.Leases("") {
		if _, _, err := r.store.Unpin(context.Background(), l.Namespace, l.ID, nil); err != nil {
			r.t.Error(err)
		}
	}
	if pins := r.store.Status().Pins; pins != 0 {
		r.t.Errorf("%d pins left behind", pins)
	}
	if err := r.store.Close(); err != nil {
		r.t.Error(err)
	}
	c := r.slab.Counts()
	if c.Reserved+c.Deleting+c.Retired != 0 || c.Free+c.Used+c.Quarantined != c.Total {
		r.t.Errorf("slots left behind: %+v", c)
	}
	for _, err := range []error{r.slab.Close(), r.eng.Close(), r.db.Close(), r.arena.Close()} {
		if err != nil {
			r.t.Error(err)
		}
	}
}

// serve listens for handler and returns a client of it, whose exchanges are held
// against the contract.
func (r *rig) serve(l net.Listener, h http.Handler) *http.Client {
	r.t.Helper()
	listener := "http"
	if l.Addr().Network() == "unix" {
		listener = "unix"
	}
	return r.serveAs(listener, l, h)
}

// serveAs is serve for the listener of this name; without a name nothing is held
// against the contract.
func (r *rig) serveAs(listener string, l net.Listener, h http.Handler) *http.Client {
	r.t.Helper()
	r.run(r.srv.Listener(&watched{l, r.conns}), h)
	addr := l.Addr()
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, addr.Network(), addr.String())
	}}
	r.t.Cleanup(tr.CloseIdleConnections)
	c := &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if listener != "" {
		c.Transport = checked(r.t, listener, tr)
	}
	return c
}

// run serves h on a listener that the server has wrapped.
func (r *rig) run(l net.Listener, h http.Handler) {
	srv := r.srv.HTTPServer(h)
	ended := make(chan struct{})
	r.https, r.ended = append(r.https, srv), append(r.ended, ended)
	go func() {
		defer close(ended)
		_ = srv.Serve(l) // always ErrServerClosed in the end
	}()
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	must(t, err)
	return l
}

func (r *rig) unix() *http.Client {
	r.t.Helper()
	return r.serve(listen(r.t), r.srv.DataHandler(Unix))
}

func (r *rig) tcp() (*http.Client, string) {
	r.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(r.t, err)
	return r.serve(l, r.srv.DataHandler(TCP)), l.Addr().String()
}

func (r *rig) admin() *http.Client {
	r.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(r.t, err)
	return r.serveAs("admin", l, r.srv.AdminHandler())
}

// answer is a response, read to its end.
type answer struct {
	code   int
	header http.Header
	body   []byte
	closes bool // Connection: close
}

func (a answer) problem() api.Problem {
	var p api.Problem
	if a.header.Get("Content-Type") == api.MediaProblem {
		_ = json.Unmarshal(a.body, &p)
	}
	return p
}

// want fails unless the answer is a problem like this.
func (a answer) want(t testing.TB, code int, word, field string) {
	t.Helper()
	p := a.problem()
	if a.code != code || p.Status != code || p.Code != word || p.Field != field || p.Title == "" {
		t.Errorf("got %d %s, want a problem %d %s in %q", a.code, a.body, code, word, field)
	}
	if a.header.Get(api.HeaderInstance) != testInstance {
		t.Errorf("%d: no %s", code, api.HeaderInstance)
	}
}

func (a answer) ok(t testing.TB) answer {
	t.Helper()
	if a.code != http.StatusOK {
		t.Fatalf("got %d %s, want 200", a.code, a.body)
	}
	if a.header.Get(api.HeaderInstance) != testInstance {
		t.Errorf("no %s", api.HeaderInstance)
	}
	return a
}

// do sends a request; path is escaped already.
func do(t testing.TB, c *http.Client, method, path string, body io.Reader, header ...string) answer {
	t.Helper()
	req, err := http.NewRequest(method, "http://localhost"+path, body)
	must(t, err)
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	return send(t, c, req)
}

func send(t testing.TB, c *http.Client, req *http.Request) answer {
	t.Helper()
	resp, err := c.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", req.Method, req.URL, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", req.Method, req.URL, err)
	}
	return answer{resp.StatusCode, resp.Header, b, resp.Close}
}

// post sends JSON and decodes the answer into out, unless out is nil.
func post(t testing.TB, c *http.Client, path, body string, out any) answer {
	t.Helper()
	a := do(t, c, "POST", path, strings.NewReader(body), "Content-Type", api.MediaJSON)
	if out != nil {
		must(t, json.Unmarshal(a.ok(t).body, out))
	}
	return a
}

// frames is a body of frames.
func frames(items ...any) *bytes.Buffer {
	var b bytes.Buffer
	for i := 0; i < len(items); i += 2 {
		data := items[i+1].([]byte)
		b.Write(api.AppendFrame(nil, api.Frame{Key: items[i].(string), Bytes: int64(len(data))}))
		b.Write(data)
	}
	return &b
}

func storeFrames(t testing.TB, c *http.Client, query string, body io.Reader) answer {
	t.Helper()
	return do(t, c, "POST", "/v1/batch/store?"+query, body, "Content-Type", api.MediaFrames)
}

// mustStore stores keys whose payloads are data(key, n).
func mustStore(t testing.TB, c *http.Client, n int, keys ...string) {
	t.Helper()
	items := make([]any, 0, 2*len(keys))
	for _, k := range keys {
		items = append(items, k, data(k, n))
	}
	var res api.StoreResponse
	must(t, json.Unmarshal(storeFrames(t, c, "namespace=default", frames(items...)).ok(t).body, &res))
	if res.OK != len(keys) {
		t.Fatalf("stored %+v", res)
	}
}

// data is n bytes that only this key has.
func data(key string, n int) []byte {
	rnd := rand.NewChaCha8([32]byte([]byte(fmt.Sprintf("%-32.32s", key))))
	b := make([]byte, n)
	_, _ = rnd.Read(b) // never fails
	return b
}

// raw speaks HTTP by hand. What it exchanges is held against the contract.
type raw struct {
	t    testing.TB
	conn net.Conn
	r    *bufio.Reader
	sent bytes.Buffer // since the last answer
}

func newRaw(t testing.TB, c net.Conn) *raw { return &raw{t: t, conn: c, r: bufio.NewReader(c)} }

func dialRaw(t testing.TB, addr string) *raw {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return newRaw(t, c)
}

func (r *raw) write(s string) {
	r.t.Helper()
	r.sent.WriteString(s)
	must(r.t, second(io.WriteString(r.conn, s)))
}

func (r *raw) answer() answer {
	r.t.Helper()
	e, req := asSent(r.sent.Bytes())
	r.sent.Reset()
	resp, err := http.ReadResponse(r.r, req)
	must(r.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	must(r.t, err)
	e.Status, e.Answer, e.Content, e.Complete = resp.StatusCode, resp.Header, b, true
	judge(r.t, e)
	return answer{resp.StatusCode, resp.Header, b, resp.Close}
}

// unjudged is answer for what the contract has nothing to say about.
func (r *raw) unjudged() answer {
	r.t.Helper()
	r.sent.Reset()
	resp, err := http.ReadResponse(r.r, nil)
	must(r.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	must(r.t, err)
	return answer{resp.StatusCode, resp.Header, b, resp.Close}
}

// closed fails unless the server ends the connection next.
func (r *raw) closed() {
	r.t.Helper()
	if b, err := r.r.ReadByte(); err != io.EOF {
		r.t.Errorf("got byte %q, %v, want the connection closed", b, err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func second[A any](_ A, err error) error { return err }
