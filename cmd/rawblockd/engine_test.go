// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/client"
	"github.com/rawblockd/rawblockd/config"
	"github.com/rawblockd/rawblockd/internal/testdev"
	"github.com/rawblockd/rawblockd/ioengine"
	"github.com/rawblockd/rawblockd/slab"
)

// onBlockDevice is a daemon's configuration over a block device. It skips the test where
// there cannot be one.
func onBlockDevice(t *testing.T, engine string) *config.Config {
	t.Helper()
	c := testConfig(t, shortDir(t))
	c.Listen.Admin = "127.0.0.1:0"
	s := &c.Slabs[0]
	s.Engine, s.QueueDepth, s.Workers = engine, 48, 7
	s.Device = testdev.Loop(t, testSlab, 512)
	if _, err := slab.Init(s.Device, slab.InitOptions{SlotSize: int64(s.SlotSize), Name: "test"}); err != nil {
		t.Fatal(err)
	}
	return c
}

// needUring skips a test where the kernel gives no io_uring.
func needUring(t *testing.T) {
	t.Helper()
	if err := ioengine.ProbeUring(1); err != nil {
		t.Skip(err)
	}
}

// said is what a daemon says of the engine of its only slab, in all places.
type said struct {
	log     string // its line
	stats   *api.EngineStats
	status  string // of the command line
	metrics string
}

// hear stores and loads a payload, and asks the daemon about its engine.
func hear(t *testing.T, c *config.Config, log string) said {
	t.Helper()
	addr := "unix:" + c.Listen.Unix
	cl, err := client.New(addr, "default")
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	body := bytes.Repeat([]byte("engine"), 500_000) // over several pieces, and no whole ones
	if _, err := cl.Put(t.Context(), "k", bytes.NewReader(body), int64(len(body)), client.PutOptions{}); err != nil {
		t.Errorf("store: %v", err)
	}
	if got := ok(t, "get", "k", "--addr", addr); got != string(body) {
		t.Errorf("load: %d bytes that are not those stored", len(got))
	}
	st, err := cl.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := said{stats: st.Slabs[0].Engine, status: ok(t, "status", "--addr", addr)}
	if s.stats == nil {
		t.Fatal("the status has no engine")
	}
	s.log = regexp.MustCompile(`(?m)^.* msg=engine .*$`).FindString(log)
	m := regexp.MustCompile(`msg=serving .*admin=(\S+)`).FindStringSubmatch(log)
	if m == nil {
		t.Fatalf("the log does not tell of the admin listener: %s", log)
	}
	code, metrics := fetch(t, "http://"+m[1]+"/metrics")
	if code != http.StatusOK {
		t.Fatalf("metrics: %d", code)
	}
	s.metrics = metrics
	return s
}

// wants fails the test unless text has all of these, and with ! in front none.
func wants(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if not, forbidden := strings.CutPrefix(p, "!"); forbidden && strings.Contains(text, not) {
			t.Errorf("%s has %q:\n%s", what, not, text)
		} else if !forbidden && !strings.Contains(text, p) {
			t.Errorf("%s lacks %q:\n%s", what, p, text)
		}
	}
}

// TestEngineChosen: what auto and each name come to, on a block device and on a file.
func TestEngineChosen(t *testing.T) {
	needUring(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root, for devices and for memory to be registered whatever the limit")
	}
	for name, tt := range map[string]struct {
		engine string
		file   bool
		want   api.EngineStats
		log    []string
	}{
		"auto on a device":  {"auto", false, api.EngineStats{Name: "uring", Depth: 48, Registered: true, Why: "a block device, and this kernel gives io_uring"}, []string{"level=INFO", "engine=uring depth=48 registered=true why="}},
		"auto on a file":    {"auto", true, api.EngineStats{Name: "pread", Depth: 7, Why: fileWhy}, []string{"level=INFO", "engine=pread depth=7 why=\"a regular file, where auto stays", "!registered"}},
		"pread on a device": {"pread", false, api.EngineStats{Name: "pread", Depth: 7}, []string{"level=INFO", "engine=pread depth=7", "!why"}},
		"uring on a device": {"uring", false, api.EngineStats{Name: "uring", Depth: 48, Registered: true}, []string{"level=INFO", "engine=uring depth=48 registered=true", "!why"}},
		"uring on a file":   {"uring", true, api.EngineStats{Name: "uring", Depth: 48, Registered: true}, []string{"level=INFO", "engine=uring depth=48"}},
	} {
		t.Run(name, func(t *testing.T) {
			var c *config.Config
			if tt.file {
				c = testConfig(t, shortDir(t))
				c.Listen.Admin = "127.0.0.1:0"
				c.Slabs[0].Engine, c.Slabs[0].QueueDepth, c.Slabs[0].Workers = tt.engine, 48, 7
			} else {
				c = onBlockDevice(t, tt.engine)
			}
			d := serve(t, "--config", write(t, c))
			s := hear(t, c, d.log.String())
			got := api.EngineStats{Name: s.stats.Name, Depth: s.stats.Depth, Why: s.stats.Why, Registered: s.stats.Registered, Unregistered: s.stats.Unregistered}
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			wants(t, "the log", s.log, tt.log...)
			info := fmt.Sprintf("rawblockd_engine_info{engine=%q,slab=\"dev\",why=%q} 1", tt.want.Name, tt.want.Why)
			depth := fmt.Sprintf("rawblockd_engine_depth{engine=%q,slab=\"dev\"} %d", tt.want.Name, tt.want.Depth)
			other := "!engine=\"uring\""
			if tt.want.Name == "uring" {
				other = "!engine=\"pread\""
				wants(t, "metrics", s.metrics, `rawblockd_engine_registered{engine="uring",slab="dev"} 1`)
				if m := regexp.MustCompile(`rawblockd_uring_enters_total\{slab="dev"\} ([1-9]\d*)`).FindString(s.metrics); m == "" {
					t.Error("metrics count no system calls of io_uring")
				}
			}
			wants(t, "metrics", s.metrics, info, depth, other)
			if explains := strings.Contains(s.status, "dev is on pread: a regular file"); explains != (tt.want.Why == fileWhy) {
				t.Errorf("status: %s", s.status)
			}
		})
	}
}

// restricted is the command of a daemon in a process that may less than this one.
func restricted(t *testing.T, c *config.Config, how string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "serve", "--config", write(t, c))
	cmd.Env = append(os.Environ(), beDaemon+"=1", beRestricted+"="+how)
	return cmd
}

// C18: where a seccomp filter forbids io_uring, or a kernel has none, auto serves on
// pread and says why everywhere; uring refuses to start and says why and what to do.
func TestUringForbidden(t *testing.T) {
	for how, why := range map[string]string{
		"seccomp EPERM":  "io_uring_setup: operation not permitted; allow the system calls io_uring_setup, io_uring_enter and io_uring_register in the seccomp profile",
		"seccomp ENOSYS": "io_uring_setup: function not implemented; run Linux 5.6 or later",
	} {
		t.Run(how+", auto", func(t *testing.T) {
			c := onBlockDevice(t, "auto")
			p := startCommand(t, restricted(t, c, how), beRestricted+"="+how)
			s := hear(t, c, p.log.String())
			if e := s.stats; e.Name != "pread" || e.Depth != 7 || e.Registered || !strings.HasPrefix(e.Why, "no io_uring here: "+why) {
				t.Errorf("got %+v", e)
			}
			wants(t, "the log", s.log, "level=WARN", "engine=pread depth=7 why=\"no io_uring here: "+why)
			wants(t, "status", s.status, "dev is on pread: no io_uring here: "+why)
			wants(t, "metrics", s.metrics, `rawblockd_engine_info{engine="pread",slab="dev",why="no io_uring here: `+why, `!engine="uring"`)
		})
		t.Run(how+", uring", func(t *testing.T) {
			c := onBlockDevice(t, "uring")
			refusedIn(t, restricted(t, c, how), `slab "dev": engine uring on `+c.Slabs[0].Device+": "+why, "or set slabs.engine: auto, which serves on pread")
			if _, err := os.Stat(c.Meta.Path); err == nil {
				t.Error("a refused start made a metadata directory")
			}
		})
	}
}

// C18: locked memory is limited. The engine runs with its memory unregistered, says so
// everywhere, and is as right.
func TestUringWithLittleLockedMemory(t *testing.T) {
	needUring(t)
	for how, limit := range map[string]string{"memlock 8 MiB": "8192 KiB", "memlock 64 KiB": "64 KiB"} {
		for _, engine := range []string{"auto", "uring"} {
			t.Run(how+", "+engine, func(t *testing.T) {
				c := onBlockDevice(t, engine)
				p := startCommand(t, restricted(t, c, how), beRestricted+"="+how)
				s := hear(t, c, p.log.String())
				why := "register 16777216 bytes of memory: cannot allocate memory; the limit of locked memory is " + limit + ": raise it (LimitMEMLOCK=infinity in the unit"
				if e := s.stats; e.Name != "uring" || e.Depth != 48 || e.Registered || !strings.HasPrefix(e.Unregistered, why) {
					t.Errorf("got %+v", e)
				}
				wants(t, "the log", s.log, "level=WARN", "engine=uring depth=48 registered=false", "unregistered=\""+why)
				wants(t, "status", s.status, "uring (unregistered)", "dev is on uring without registered memory, at more CPU: "+why)
				wants(t, "metrics", s.metrics, `rawblockd_engine_registered{engine="uring",slab="dev"} 0`)
			})
		}
	}
}

// refusedIn runs a command that is to end by itself, with a failure and one line that
// says these things.
func refusedIn(t *testing.T, cmd *exec.Cmd, parts ...string) {
	t.Helper()
	var errs bytes.Buffer
	cmd.Stderr = &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitFailed {
		t.Errorf("got %v, want exit code %d", err, exitFailed)
	}
	lines := strings.Split(strings.TrimSpace(errs.String()), "\n")
	wants(t, "the last line", lines[len(lines)-1], parts...)
}
