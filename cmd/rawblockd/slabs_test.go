// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/client"
	"github.com/rawblockd/rawblockd/config"
	"github.com/rawblockd/rawblockd/internal/testdev"
	"github.com/rawblockd/rawblockd/slab"
)

// node is a daemon over three slabs on loop devices, under names as udev gives them:
// links that go with the drive.
type node struct {
	t     *testing.T
	dir   string
	cfg   *config.Config
	path  string   // of the configuration
	files []string // under the loop devices
	*serving
}

func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{t: t, dir: shortDir(t)}
	n.cfg = config.Dev(n.dir)
	n.cfg.Listen.HTTP, n.cfg.Listen.Admin = "", ""
	n.cfg.Meta.MinFree = config.MiB
	n.cfg.Limits.Payload, n.cfg.Limits.StreamBytes = 8*config.MiB, 32*config.MiB
	n.cfg.Slabs, n.cfg.Namespaces = nil, []config.Namespace{config.DefaultNamespace()}
	n.cfg.Namespaces[0].Name, n.cfg.Namespaces[0].Quota = "default", 64*config.MiB
	for i := range 3 {
		s := config.DefaultSlab()
		s.Name, s.SlotSize, s.Workers = fmt.Sprint("s", i), 256*config.KiB, 4
		s.Device = filepath.Join(n.dir, "nvme-"+s.Name)
		file := testdev.File(t, testSlab)
		loop := testdev.LoopOver(t, file, 512)
		if err := os.Symlink(loop, s.Device); err != nil {
			t.Fatal(err)
		}
		if _, err := slab.Init(s.Device, slab.InitOptions{SlotSize: int64(s.SlotSize), Name: s.Name}); err != nil {
			t.Fatal(err)
		}
		n.files = append(n.files, file)
		n.cfg.Slabs = append(n.cfg.Slabs, s)
		n.cfg.Namespaces[0].Slabs = append(n.cfg.Namespaces[0].Slabs, s.Name)
	}
	n.path = write(t, n.cfg)
	n.start()
	return n
}

func (n *node) start() { n.serving = serve(n.t, "--config", n.path) }

func (n *node) client() *client.Client {
	n.t.Helper()
	cl, err := client.New("unix:"+filepath.Join(n.dir, "rawblockd.sock"), "default")
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(cl.Close)
	return cl
}

func (n *node) status() api.StatusReport {
	n.t.Helper()
	st, err := n.client().Status(n.t.Context())
	if err != nil {
		n.t.Fatal(err)
	}
	return st
}

// content is what is stored under a key: two slots, the second one short.
func content(key string) []byte { return bytes.Repeat([]byte(key+"."), 300_000/(len(key)+1)) }

func itemsOf(keys []string) iter.Seq[client.Item] {
	return func(yield func(client.Item) bool) {
		for _, k := range keys {
			b := content(k)
			if !yield(client.Item{Key: k, Bytes: int64(len(b)), Body: bytes.NewReader(b)}) {
				return
			}
		}
	}
}

// store stores keys and returns those that are not ok.
func (n *node) store(keys ...string) map[string]api.StoreResult {
	n.t.Helper()
	res, err := n.client().Store(n.t.Context(), itemsOf(keys), client.StoreOptions{})
	if err != nil {
		n.t.Fatal(err)
	}
	bad := map[string]api.StoreResult{}
	for i, r := range res.Results {
		if r.Status != api.StatusOK {
			bad[keys[i]] = r
		}
	}
	return bad
}

// load loads keys, compares bytes, and returns the status of each.
func (n *node) load(keys ...string) map[string]api.Status {
	n.t.Helper()
	out := map[string]api.Status{}
	for l, err := range n.client().Load(n.t.Context(), keys) {
		if err != nil {
			n.t.Fatal(err)
		}
		out[l.Key] = l.Status
		if l.Body == nil {
			continue
		}
		if b, err := io.ReadAll(l.Body); err != nil || !bytes.Equal(b, content(l.Key)) {
			n.t.Errorf("%q: wrong bytes (%v)", l.Key, err)
		}
	}
	return out
}

// on returns the keys that a slab has.
func (n *node) on(slab string, keys ...string) []string {
	n.t.Helper()
	cl := n.client()
	var out []string
	for _, k := range keys {
		e, err := cl.Explain(n.t.Context(), k)
		if err != nil {
			n.t.Fatal(err)
		}
		if e.Slab == slab {
			out = append(out, k)
		}
	}
	return out
}

func keysOf(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s-%02d", prefix, i)
	}
	return out
}

// One drive of three is away at the start: the daemon says so and serves the
// others; when the drive is back, so is what it has.
func TestMissingDevice(t *testing.T) {
	n := newNode(t)
	keys := keysOf("k", 24)
	if bad := n.store(keys...); len(bad) > 0 {
		t.Fatalf("store: %v", bad)
	}
	lost := n.on("s1", keys...)
	if len(lost) != 8 {
		t.Fatalf("%d of 24 keys are on one of three slabs", len(lost))
	}
	before := n.status().Namespaces[0].SlotBytes
	n.end()

	link := n.cfg.Slabs[1].Device
	loop, err := os.Readlink(link)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	n.start()
	if log := n.log.String(); !strings.Contains(log, "slab is missing") || !strings.Contains(log, "slab=s1") || !strings.Contains(log, link) {
		t.Errorf("the log does not name the slab and its device: %s", log)
	}
	st := n.status()
	if s := st.Slabs[1]; s.Health != "missing" || !strings.Contains(s.Reason, "no such file") || s.Device != link || s.Slots.Used != 16 || s.Engine != nil {
		t.Errorf("status: %+v", s)
	}
	if got := st.Namespaces[0].SlotBytes; got != before {
		t.Errorf("%d bytes of the quota are used, want %d", got, before)
	}
	if out := ok(t, "status", "--addr", "unix:"+n.cfg.Listen.Unix); !strings.Contains(out, "\ns1    missing  sync ") || !strings.Contains(out, "\ns1 is missing: open device") {
		t.Errorf("the table does not say it: %s", out)
	}
	for k, got := range n.load(keys...) {
		if want := map[bool]api.Status{true: api.StatusUnavailable, false: api.StatusOK}[slices.Contains(lost, k)]; got != want {
			t.Errorf("load of %q: %v, want %v", k, got, want)
		}
	}
	cl := n.client()
	if _, err := cl.Get(t.Context(), lost[0]); err == nil || !strings.Contains(err.Error(), `"s1" is missing`) {
		t.Errorf("get: %v", err)
	}
	if res, err := cl.Remove(t.Context(), lost[:1], false); err != nil || res.Removed != 1 {
		t.Errorf("remove: %+v, %v", res, err)
	}
	fresh := append(keysOf("fresh", 6), lost[1])
	if bad := n.store(fresh...); len(bad) > 0 {
		t.Errorf("store: %v", bad)
	}
	n.end()

	if err := os.Symlink(loop, link); err != nil {
		t.Fatal(err)
	}
	n.start()
	for k, got := range n.load(append(fresh, keys...)...) {
		if want := map[bool]api.Status{true: api.StatusMissing, false: api.StatusOK}[k == lost[0]]; got != want {
			t.Errorf("load of %q with the drive again: %v, want %v", k, got, want)
		}
	}
	st = n.status()
	if s := st.Slabs[1]; s.Health != "online" || s.Slots.Used != 12 || s.Mount != 2 {
		t.Errorf("status with the drive again: %+v", s)
	}
	if got, want := st.Namespaces[0].SlotBytes, int64(29*2*256<<10); got != want {
		t.Errorf("%d bytes of the quota are used, want %d", got, want)
	}
	n.end()
}

// A wrong device is refused also where others could be served, and so is a start
// without any.
func TestWrongDeviceOfSeveral(t *testing.T) {
	n := newNode(t)
	n.end()
	loops := make([]string, 3)
	relink := func(i int, to string) {
		t.Helper()
		_ = os.Remove(n.cfg.Slabs[i].Device)
		if to == "" {
			return
		}
		if err := os.Symlink(to, n.cfg.Slabs[i].Device); err != nil {
			t.Fatal(err)
		}
	}
	for i := range loops {
		loops[i], _ = os.Readlink(n.cfg.Slabs[i].Device)
	}
	foreign := testdev.File(t, testSlab)
	if _, err := slab.Init(foreign, slab.InitOptions{SlotSize: int64(n.cfg.Slabs[1].SlotSize), Name: "s1"}); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(foreign, testSlab/2); err != nil { // what is left of another slab is no part of this one
		t.Fatal(err)
	}
	relink(1, foreign)
	refused(t, exitFailed, n.path, `slab "s1"`, "it is truncated or not the one that was initialised")

	relink(1, loops[1])
	fresh := n.cfg.Slabs[1]
	fresh.Name, fresh.Device = "new", testdev.File(t, testSlab)
	n.cfg.Slabs = append(n.cfg.Slabs, fresh)
	refused(t, exitFailed, write(t, n.cfg), `slab "new"`, "no rawblockd label", "run: rawblockd init "+fresh.Device)
	relink(1, "") // that another slab is away makes the new one no older
	refused(t, exitFailed, write(t, n.cfg), `slab "new"`, "no rawblockd label")
	relink(1, loops[1])
	n.cfg.Slabs = n.cfg.Slabs[:3]
	write(t, n.cfg)

	held, err := slab.OpenDevice(loops[1])
	if err != nil {
		t.Fatal(err)
	}
	refused(t, exitFailed, n.path, `slab "s1"`, "held")
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}

	n.cfg.Slabs[1].SlotSize = config.MiB
	refused(t, exitFailed, write(t, n.cfg), `slab "s1"`, "slot_size")
	n.cfg.Slabs[1].SlotSize = 256 * config.KiB
	write(t, n.cfg)

	for i := range loops {
		relink(i, "")
	}
	refused(t, exitFailed, n.path, "none of the 3 slabs could be opened", `slab "s0"`, n.cfg.Slabs[0].Device, "no such file")
	for i := range loops {
		relink(i, loops[i])
	}
	n.start()
	for _, s := range n.status().Slabs {
		if s.Health != "online" || s.Mount != 2 { // none of the refused starts mounted any
			t.Errorf("%+v", s)
		}
	}
	n.end()
}

// The file under a loop device is cut off while the daemon serves: that slab's keys
// become misses, no batch fails, and stores go to the others.
func TestDeviceDiesUnderLoad(t *testing.T) {
	n := newNode(t)
	keys := keysOf("k", 90)
	if bad := n.store(keys...); len(bad) > 0 {
		t.Fatalf("store: %v", bad)
	}
	lost := n.on("s1", keys...)
	if err := os.Truncate(n.files[1], 0); err != nil {
		t.Fatal(err)
	}
	for round := 0; n.status().Slabs[1].Health != "offline"; round++ {
		if round == 20 {
			t.Fatalf("the slab is not found dead: %+v", n.status().Slabs[1])
		}
		for k, got := range n.load(keys...) {
			if dead := slices.Contains(lost, k); !dead && got != api.StatusOK || dead && got == api.StatusOK {
				t.Errorf("load of %q, on the dead slab: %v: %v", k, dead, got)
			}
		}
	}
	fresh := keysOf("fresh", 12)
	if bad := n.store(fresh...); len(bad) > 0 {
		t.Errorf("store: %v", bad)
	}
	if got := n.on("s1", fresh...); len(got) > 0 {
		t.Errorf("%q went to the dead slab", got)
	}
	for k, got := range n.load(append(fresh, keys...)...) {
		want := []api.Status{api.StatusOK}
		if slices.Contains(lost, k) {
			want = []api.Status{api.StatusUnavailable, api.StatusMissing} // those met first cost their entries
		}
		if !slices.Contains(want, got) {
			t.Errorf("load of %q: %v, want one of %v", k, got, want)
		}
	}
	for i, s := range n.status().Slabs {
		if want := []string{"online", "offline", "online"}[i]; s.Health != want {
			t.Errorf("%+v, want %s", s, want)
		}
	}
	n.end()
}
