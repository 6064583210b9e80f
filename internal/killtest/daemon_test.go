// SPDX-License-Identifier: Apache-2.0

package killtest

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rawblockd/rawblockd/client"
	"github.com/rawblockd/rawblockd/internal/testdev"
)

const (
	deviceSize = 256 << 20
	slotSize   = "256KiB"
)

// rig is a device, its metadata and the binary that serves them.
type rig struct {
	binary, dir, device string
}

// newRig builds the binary, unless one is given, and initialises a device.
func newRig(t *testing.T, binary string) *rig {
	t.Helper()
	// Not t.TempDir: the path of a socket may have 107 bytes.
	dir, err := os.MkdirTemp("", "rbkill")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	r := &rig{binary: binary, dir: dir, device: device(t)}
	if r.binary == "" {
		r.binary = filepath.Join(dir, "rawblockd")
		run(t, "go", "build", "-o", r.binary, "github.com/rawblockd/rawblockd/cmd/rawblockd")
	}
	run(t, r.binary, "init", r.device, "--slot-size", slotSize, "--name", "kill", "--yes")
	return r
}

// configure writes the configuration of the next life.
func (r *rig) configure(t *testing.T, engine string) {
	t.Helper()
	config := fmt.Sprintf(`listen: {unix: %q, http: "", admin: ""}
meta: {path: %q, min_free: 1MiB}
slabs:
  - {name: kill, device: %q, slot_size: %s, workers: 8, queue_depth: 8, engine: %s}
namespaces:
  - {name: default, slabs: [kill]}
limits: {payload: 4MiB, stream_bytes: 64MiB}
`, r.socket(), filepath.Join(r.dir, "meta"), r.device, slotSize, engine)
	if err := os.WriteFile(r.config(), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
}

// device returns a loop device where there can be one, else a file.
func device(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat("/dev/loop-control"); err == nil && os.Geteuid() == 0 {
		return testdev.Loop(t, deviceSize, 512)
	}
	return testdev.File(t, deviceSize)
}

func (r *rig) socket() string { return filepath.Join(r.dir, "s.sock") }
func (r *rig) config() string { return filepath.Join(r.dir, "config.yaml") }

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// daemon is one life of the binary.
type daemon struct {
	cmd    *exec.Cmd
	log    *os.File
	exited chan error
}

// start starts the daemon on an engine and waits until it serves. It says so to the
// service manager, which is this test.
func (r *rig) start(t *testing.T, engine string) *daemon {
	t.Helper()
	r.configure(t, engine)
	socket := filepath.Join(r.dir, "n.sock")
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(r.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{cmd: exec.Command(r.binary, "serve", "--config", r.config()), log: log, exited: make(chan error, 1)}
	d.cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+socket)
	d.cmd.Stdout, d.cmd.Stderr = log, log
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		d.exited <- d.cmd.Wait()
		_ = notify.Close() // ends the wait below, if it still runs
	}()
	if err := waitReady(notify); err != nil {
		_ = d.cmd.Process.Kill() // it may have exited by itself
		t.Fatalf("the daemon does not get ready: %v, %v\n%s", err, <-d.exited, r.tail())
	}
	_ = notify.Close() // whatever else it has to say
	if err := os.Remove(socket); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return d
}

// waitReady returns when the daemon has sent READY=1, within a minute.
func waitReady(notify *net.UnixConn) error {
	if err := notify.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	b := make([]byte, 4096)
	for {
		n, err := notify.Read(b)
		if err != nil {
			return err
		}
		if strings.Contains(string(b[:n]), "READY=1") {
			return nil
		}
	}
}

// kill ends the daemon as a power switch would.
func (d *daemon) kill(t *testing.T) {
	t.Helper()
	if err := d.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-d.exited // "signal: killed" is what we want
	if err := d.log.Close(); err != nil {
		t.Fatal(err)
	}
}

// tail is the end of the daemon's log.
func (r *rig) tail() string {
	f, err := os.Open(filepath.Join(r.dir, "log"))
	if err != nil {
		return err.Error()
	}
	defer func() { _ = f.Close() }() // it was only read
	var lines []string
	for s := bufio.NewScanner(f); s.Scan(); {
		lines = append(lines, s.Text())
	}
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

func (r *rig) client(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.New("unix:"+r.socket(), "default")
	if err != nil {
		t.Fatal(err)
	}
	return c
}
