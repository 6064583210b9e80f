// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/client"
	"github.com/rawblockd/rawblockd/config"
	"github.com/rawblockd/rawblockd/internal/testdev"
	"github.com/rawblockd/rawblockd/slab"
)

// smallDisk mounts a file system of 64 MiB, or skips the test.
func smallDisk(t *testing.T, kind string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	dir := shortDir(t)
	source, options := "none", "size=64m,nr_inodes=2000"
	if kind == "ext4" {
		source, options = testdev.Loop(t, 64<<20, 512), ""
		if out, err := exec.Command("mkfs.ext4", "-q", "-m", "0", source).CombinedOutput(); err != nil {
			t.Skipf("mkfs.ext4: %v %s", err, out)
		}
	}
	if err := unix.Mount(source, dir, kind, 0, options); err != nil {
		t.Skipf("mount %s: %v", kind, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
			_ = unix.Unmount(dir, unix.MNT_DETACH)
		}
	})
	return dir
}

// fill takes all of a file system but left bytes.
func fill(t *testing.T, dir string, left int64) (path string) {
	t.Helper()
	free, err := freeSpace(dir)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.CreateTemp(dir, "filler")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n := free - left; n > 0 {
		if err := unix.Fallocate(int(f.Fd()), 0, 0, n); err != nil && !errors.Is(err, unix.ENOSPC) {
			t.Fatal(err)
		}
	}
	if left == 0 { // what the file system keeps from one who asks for much at once
		_, err = f.Seek(0, io.SeekEnd)
		for block := make([]byte, 4096); err == nil; {
			_, err = f.Write(block)
		}
		if !errors.Is(err, unix.ENOSPC) {
			t.Fatal(err)
		}
	}
	return f.Name()
}

// fillFiles makes files until there can be no more.
func fillFiles(t *testing.T, dir string) (path string) {
	t.Helper()
	path, err := os.MkdirTemp(dir, "filler")
	for i := 0; err == nil; i++ {
		err = os.WriteFile(filepath.Join(path, fmt.Sprint(i)), nil, 0o600)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	return path
}

// until asks again and again, for a minute, until it is true.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick, limit := time.NewTicker(20*time.Millisecond), time.After(time.Minute)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("waited a minute in vain: %s", what)
		}
	}
}

// fullRig is a daemon whose metadata lie on a small disk.
type fullRig struct {
	t    *testing.T
	disk string
	p    *process
	c    *client.Client
}

func newFullRig(t *testing.T, kind string) *fullRig {
	r := &fullRig{t: t, disk: smallDisk(t, kind)}
	c := testConfig(t, shortDir(t))
	c.Slabs[0].Device += ".small"
	c.Slabs[0].SlotSize = 4 * config.KiB
	if _, err := slab.Init(c.Slabs[0].Device, slab.InitOptions{SlotSize: 4096, Name: "small", Size: testSlab}); err != nil {
		t.Fatal(err)
	}
	c.Meta.Path, c.Meta.MinFree = filepath.Join(r.disk, "meta"), 8*config.MiB
	r.p = startProcess(t, c)
	var err error
	if r.c, err = client.New("unix:"+c.Listen.Unix, "default"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.c.Close)
	return r
}

func (r *fullRig) put(key string) error {
	_, err := r.c.Put(r.t.Context(), key, strings.NewReader(key), int64(len(key)), client.PutOptions{})
	return err
}

// loads checks that everything stored is still served.
func (r *fullRig) loads(when string, keys ...string) {
	r.t.Helper()
	i := 0
	for l, err := range r.c.Load(r.t.Context(), keys) {
		if err != nil {
			r.t.Fatalf("%s: load: %v", when, err)
		}
		var b []byte
		if l.Body != nil {
			b, err = io.ReadAll(l.Body)
		}
		if err != nil || string(b) != keys[i] {
			r.t.Errorf("%s: load of %q: %s %q %v", when, keys[i], l.Status, b, err)
		}
		i++
	}
}

// refused checks that an error is a refusal with a reason.
func (r *fullRig) refused(when string, err error, reason string) {
	r.t.Helper()
	var e *client.Error
	if !errors.As(err, &e) || e.StatusCode != http.StatusServiceUnavailable || e.Code() != string(api.StatusUnavailable) || e.RetryAfter == 0 || !strings.Contains(e.Error(), reason) {
		r.t.Errorf("%s: got %v, want 503 unavailable with Retry-After and %q", when, err, reason)
	}
}

// C19: the metadata's file system is full. Stores are refused with a reason, loads
// and removes go on; when there is room stores do too.
func TestMetadataDiskFull(t *testing.T) {
	for _, kind := range []string{"tmpfs", "ext4"} {
		t.Run(kind, func(t *testing.T) {
			r := newFullRig(t, kind)
			for _, k := range []string{"a", "b", "c"} {
				if err := r.put(k); err != nil {
					t.Fatal(err)
				}
			}
			for when, c := range map[string]struct {
				fill   func() string
				reason string
			}{
				"4 MiB left": {func() string { return fill(t, r.disk, 4<<20) }, "meta.min_free is 8388608"},
				"full":       {func() string { return fill(t, r.disk, 0) }, "meta.min_free is 8388608"},
				"no inodes":  {func() string { return fillFiles(t, r.disk) }, "room for 0 more files (inodes)"},
			} {
				filler, reason := c.fill(), c.reason
				until(t, when+": a store is refused", func() bool { return r.put(fmt.Sprint("x", time.Now().UnixNano())) != nil })
				r.refused(when+", put", r.put("new"), reason)
				got, err := r.c.Store(t.Context(), slices.Values([]client.Item{{Key: "new", Bytes: 3, Body: strings.NewReader("new")}}), client.StoreOptions{})
				if err != nil || got.Results[0].Status != api.StatusUnavailable || !strings.Contains(got.Results[0].Error, reason) {
					t.Errorf("%s, batch store: %+v, %v", when, got, err)
				}
				touched, err := r.c.Touch(t.Context(), []string{"a"}, time.Hour)
				if err != nil || touched.Results[0].Status != api.StatusUnavailable || !strings.Contains(touched.Results[0].Error, reason) {
					t.Errorf("%s, touch: %+v, %v", when, touched, err)
				}
				r.loads(when, "a", "b")
				if got, err := r.c.Remove(t.Context(), []string{"c"}, false); err != nil || got.Removed != 1 {
					t.Errorf("%s, remove: %+v, %v", when, got, err)
				}
				if ready, err := r.c.Ready(t.Context()); err != nil || !ready.Ready {
					t.Errorf("%s: %+v, %v", when, ready, err)
				}
				if st, err := r.c.Status(t.Context()); err != nil || !st.Ready || !strings.Contains(st.StoresRefused, reason) {
					t.Errorf("%s, status: %q, %v", when, st.StoresRefused, err)
				}
				if err := os.RemoveAll(filler); err != nil {
					t.Fatal(err)
				}
				until(t, when+", room again: a store is taken", func() bool { return r.put("c") == nil })
				r.loads("room again", "a", "b", "c")
				if st, err := r.c.Status(t.Context()); err != nil || st.StoresRefused != "" {
					t.Errorf("room again, status: %q, %v", st.StoresRefused, err)
				}
				if log := r.p.log.String(); !strings.Contains(log, `level=WARN msg="stores are refused`) || !strings.Contains(log, `level=INFO msg="stores are accepted again`) {
					t.Errorf("%s: the log says %s", when, log)
				}
				r.p.log.forget()
			}
		})
	}
}

// C19, where it comes to the worst: the disk was filled too quickly for the watch,
// and the metadata fails. The process lives, serves what is stored, says why it
// changes nothing, and starts anew by itself when there is room.
func TestMetadataDiskFullTooSoon(t *testing.T) {
	if testing.Short() {
		t.Skip("writes much")
	}
	for _, kind := range []string{"tmpfs", "ext4"} {
		t.Run(kind, func(t *testing.T) {
			r := newFullRig(t, kind)
			for _, k := range []string{"a", "b"} {
				if err := r.put(k); err != nil {
					t.Fatal(err)
				}
			}
			// Rows of long keys until Pebble needs another file, with the disk full.
			keys := make([]string, 2000)
			for i := range keys {
				keys[i] = fmt.Sprintf("%01020d", i)
			}
			var filler string
			until(t, "the metadata fails", func() bool {
				filler = fill(t, r.disk, 0)
				for range 4 {
					var items []client.Item
					for _, k := range keys {
						items = append(items, client.Item{Key: k, Bytes: 1, Body: bytes.NewReader([]byte("x"))})
					}
					if _, err := r.c.Store(t.Context(), slices.Values(items), client.StoreOptions{Overwrite: true}); err != nil {
						t.Fatal(err)
					}
				}
				st, err := r.c.Status(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if st.MetaFailed != "" {
					return true
				}
				if err := os.Remove(filler); err != nil {
					t.Fatal(err)
				}
				until(t, "stores are taken", func() bool { return r.put("again") == nil || r.put(fmt.Sprint(time.Now().UnixNano())) == nil })
				return false
			})
			pid := r.p.cmd.Process.Pid
			r.refused("put", r.put("new"), "metadata")
			r.loads("failed", "a", "b")
			ready, err := r.c.Ready(t.Context())
			if err != nil || ready.Ready || ready.Phase != api.PhaseMetadataFailed || !strings.Contains(ready.Reason, "no space left") {
				t.Errorf("readiness: %+v, %v", ready, err)
			}
			st, err := r.c.Status(t.Context())
			if err != nil || st.Ready {
				t.Errorf("status: %+v, %v", st, err)
			}
			was := st.Instance
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
			until(t, "it has started anew", func() bool {
				st, err := r.c.Status(t.Context())
				return err == nil && st.Ready && st.Instance != was
			})
			if err := unix.Kill(pid, 0); err != nil {
				t.Errorf("it is another process: %v", err)
			}
			r.loads("started anew", "a", "b")
			if err := r.put("new"); err != nil {
				t.Error(err)
			}
		})
	}
}
