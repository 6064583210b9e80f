// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rawblockd/rawblockd/config"
	"github.com/rawblockd/rawblockd/internal/testdev"
)

// TestDoctorFails: what keeps the daemon from starting, one at a time, each
// with what to do.
func TestDoctorFails(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil       func(t *testing.T, c *config.Config)
		slab, check string
		want        []string
	}{
		"no device": {
			func(t *testing.T, c *config.Config) { c.Slabs[0].Device = "/dev/nonexistent" }, "dev", "device",
			[]string{"/dev/nonexistent is not there", "correct slabs.device", "rawblockd init /dev/nonexistent --size"},
		},
		"directory": {
			func(t *testing.T, c *config.Config) { c.Slabs[0].Device = t.TempDir() }, "dev", "device",
			[]string{"neither a block device nor a regular file"},
		},
		"blank": {
			func(t *testing.T, c *config.Config) { c.Slabs[0].Device = testdev.File(t, 16<<20) }, "dev", "label",
			[]string{"no slab yet, and it is blank", "rawblockd init ", "--slot-size 2MiB"},
		},
		"foreign": {func(t *testing.T, c *config.Config) {
			c.Slabs[0].Device = testdev.File(t, 16<<20)
			if err := os.WriteFile(c.Slabs[0].Device, append([]byte("important"), make([]byte, 16<<20)...), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "dev", "label", []string{"no slab; it holds something unknown", "--wipe"}},
		"slot size": {
			func(t *testing.T, c *config.Config) { c.Slabs[0].SlotSize = 4 * config.MiB }, "dev", "label",
			[]string{"4MiB in the configuration, but 2MiB on the label", "set slot_size: 2MiB", "--wipe"},
		},
		"copy": {func(t *testing.T, c *config.Config) {
			twin := c.Slabs[0]
			twin.Name, twin.Device = "twin", filepath.Join(t.TempDir(), "twin")
			if err := os.WriteFile(twin.Device, []byte(bytesOf(t, c.Slabs[0].Device)), 0o600); err != nil {
				t.Fatal(err)
			}
			c.Slabs = append(c.Slabs, twin)
		}, "twin", "label", []string{"slab dev has the same incarnation"}},
		"held": {func(t *testing.T, c *config.Config) {
			other := testConfig(t, shortDir(t))
			other.Slabs[0].Device = c.Slabs[0].Device
			serve(t, "--config", write(t, other))
		}, "dev", "holder", []string{"held by another process", fmt.Sprintf("pid %d", os.Getpid()), "stop who has it"}},
		"metadata lost": {func(t *testing.T, c *config.Config) {
			serve(t, "--config", write(t, c)).end()
			c.Meta.Path += "-elsewhere"
		}, "", "metadata", []string{"none there, but served before: dev", "set meta.path to the directory"}},
		"metadata is a file": {func(t *testing.T, c *config.Config) {
			if err := os.WriteFile(c.Meta.Path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "", "metadata", []string{"not a rawblockd metadata directory: it is a file"}},
		"metadata held": {func(t *testing.T, c *config.Config) {
			other := testConfig(t, shortDir(t))
			serve(t, "--config", write(t, other))
			c.Meta.Path = other.Meta.Path
		}, "", "metadata", []string{"is in use by process ", "change meta.path"}},
		"no space": {
			func(t *testing.T, c *config.Config) { c.Meta.MinFree = 1 << 60 }, "", "metadata space",
			[]string{"less than meta.min_free", "every store would be refused"},
		},
		"no socket": {func(t *testing.T, c *config.Config) {
			if err := os.WriteFile(c.Listen.Unix, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "", "listen.unix", []string{"something is there that is no socket", "change listen.unix"}},
		"socket folder is a file": {func(t *testing.T, c *config.Config) {
			c.Listen.Unix = filepath.Join(filepath.Dir(c.Slabs[0].Device), "slab.img", "s")
		}, "", "socket folder", []string{"slab.img"}},
		"group": {
			func(t *testing.T, c *config.Config) { c.Listen.UnixGroup = "nobody-has-this" }, "", "socket access",
			[]string{`the group "nobody-has-this" is not there`, "groupadd"},
		},
		"port": {
			func(t *testing.T, c *config.Config) { c.Listen.HTTP = takenPort(t) }, "", "listen.http",
			[]string{"is in use by pid " + fmt.Sprint(os.Getpid()), "change listen.http"},
		},
		"port of another daemon": {func(t *testing.T, c *config.Config) {
			other := testConfig(t, shortDir(t))
			other.Listen.Admin = freePort(t)
			serve(t, "--config", write(t, other))
			c.Listen.Admin = other.Listen.Admin
		}, "", "listen.admin", []string{"in use by another rawblockd (pid "}},
		"port of another daemon, beside one's own": {func(t *testing.T, c *config.Config) {
			other := testConfig(t, shortDir(t))
			other.Listen.Admin = freePort(t)
			serve(t, "--config", write(t, other))
			serve(t, "--config", write(t, c))
			c.Listen.Admin = other.Listen.Admin
		}, "", "listen.admin", []string{"in use by another rawblockd (pid "}},
	} {
		t.Run(name, func(t *testing.T) {
			c := testConfig(t, shortDir(t))
			tt.spoil(t, c)
			e := examine(t, c)
			if e.code != exitFailed || e.Fit || e.Failures == 0 || !strings.HasPrefix(e.errors, fmt.Sprintf("rawblockd: doctor: %d of %d checks failed", e.Failures, len(e.Checks))) {
				t.Errorf("got code %d, fit %t, %d failures, %q", e.code, e.Fit, e.Failures, e.errors)
			}
			e.finding(t, tt.slab, tt.check).wants(t, verdictFail, tt.want...)
		})
	}
}

// takenPort is an address that this process listens on and does not answer.
func takenPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { // whoever asks is hung up on
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String()
}
