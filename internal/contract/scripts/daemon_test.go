// SPDX-License-Identifier: Apache-2.0

package scripts

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// daemon is one life of the binary.
type daemon struct {
	cmd    *exec.Cmd
	log    *logText
	exited chan struct{}
	err    error // of Wait, once exited is closed
}

// logText is a log that can be waited for.
type logText struct {
	mu sync.Mutex
	// +checklocks:mu
	text bytes.Buffer
	// +checklocks:mu
	grown chan struct{}
}

// Write implements io.Writer.
func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	if l.grown != nil {
		close(l.grown)
		l.grown = nil
	}
	return len(p), nil
}

// String returns everything written.
func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// next returns everything written and a channel that is closed when there is more.
func (l *logText) next() (string, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.grown == nil {
		l.grown = make(chan struct{})
	}
	return l.text.String(), l.grown
}

// patience bounds every wait of the scripts.
const patience = 30 * time.Second

// await waits until the log matches, and returns the submatches.
func (d *daemon) await(pattern *regexp.Regexp) ([]string, error) {
	late := time.After(patience)
	for {
		text, more := d.log.next()
		if m := pattern.FindStringSubmatch(text); m != nil {
			return m, nil
		}
		select {
		case <-more:
		case <-d.exited:
			if m := pattern.FindStringSubmatch(d.log.String()); m != nil {
				return m, nil
			}
			return nil, fmt.Errorf("the daemon has ended (%v) and its log never had %s", d.err, pattern)
		case <-late:
			return nil, fmt.Errorf("the log does not have %s", pattern)
		}
	}
}

func cmdDaemon(ts *testscript.TestScript, neg bool, args []string) {
	s := of(ts)
	if neg || len(args) == 0 {
		usage(ts, "daemon start|stop|kill|restart|hangup|log")
	}
	switch verb, args := args[0], args[1:]; verb {
	case "start":
		s.start(ts, args)
	case "restart":
		s.stop(ts)
		s.start(ts, args)
	case "stop":
		s.stop(ts)
	case "kill":
		s.daemon.kill()
		s.daemon = nil
	case "hangup":
		ts.Check(s.daemon.cmd.Process.Signal(syscall.SIGHUP))
	case "log":
		if _, err := s.daemon.await(regexp.MustCompile(args[0])); err != nil {
			s.fail(ts, "%v", err)
		}
	default:
		usage(ts, "daemon start|stop|kill|restart|hangup|log")
	}
}

var serving = regexp.MustCompile(`msg=serving .*http="?([^ "\n]*)"? admin="?([^ "\n]*)"?(?: lease="?([^ "\n]*)"?)?`)

// start makes the slabs that are not there yet and starts the daemon. With
// -listening it comes back when the socket is there, else when the daemon serves.
func (s *script) start(ts *testscript.TestScript, args []string) {
	listening := false
	env := os.Environ()
	for ; len(args) > 0; args = args[1:] {
		switch {
		case args[0] == "-listening":
			listening = true
		case args[0] == "-env" && len(args) > 1:
			args = args[1:]
			env = append(env, args[0])
		default:
			usage(ts, "daemon start [-listening] [-env NAME=VALUE]...")
		}
	}
	config := s.configure(ts)
	d := &daemon{cmd: exec.Command(s.binary, "serve", "--config", config), log: &logText{}, exited: make(chan struct{})}
	d.cmd.Env, d.cmd.Stdout, d.cmd.Stderr = env, io.Discard, d.log
	ts.Check(d.cmd.Start())
	go func() {
		defer close(d.exited)
		d.err = d.cmd.Wait()
	}()
	s.daemon = d
	if listening {
		s.awaitSocket(ts)
		return
	}
	m, err := d.await(serving)
	if err != nil {
		s.fail(ts, "%v", err)
	}
	for i, name := range []string{"HTTP", "ADMIN", "LEASE"} {
		ts.Setenv(name, m[i+1])
	}
}

// configure writes config.yaml of the script with its variables in place, and
// makes the slabs it names.
func (s *script) configure(ts *testscript.TestScript) string {
	text, err := os.ReadFile(filepath.Join(s.dir, "config.yaml"))
	if errors.Is(err, os.ErrNotExist) {
		text, err = []byte(defaultConfig), nil
	}
	ts.Check(err)
	full := os.Expand(string(text), ts.Getenv)
	path := filepath.Join(s.sockets, "config.yaml")
	ts.Check(os.WriteFile(path, []byte(full), 0o600))
	for _, m := range regexp.MustCompile(`device: (\S+\.img)`).FindAllStringSubmatch(full, -1) {
		device := strings.TrimSuffix(m[1], ",")
		if _, err := os.Stat(device); err == nil || ts.Getenv("NO_SLAB") != "" {
			continue
		}
		name := strings.TrimSuffix(filepath.Base(device), ".img")
		out, err := exec.Command(s.binary, "init", device, "--size", ts.Getenv("SLAB_SIZE"), "--slot-size", "256KiB", "--name", name, "--yes").CombinedOutput()
		if err != nil {
			ts.Fatalf("init %s: %v\n%s", device, err, out)
		}
	}
	return path
}

const defaultConfig = `
listen: {unix: $SOCK, http: "127.0.0.1:0", admin: "127.0.0.1:0"}
meta: {path: $WORK/meta, min_free: 1MiB}
slabs:
  - {name: fast0, device: $WORK/fast0.img, slot_size: 256KiB}
namespaces:
  - {name: default, slabs: [fast0]}
  - {name: other, slabs: [fast0]}
limits: {batch_keys: 100, payload: 4MiB, stream_bytes: 16MiB}
`

// awaitSocket waits until the daemon's socket takes connections.
func (s *script) awaitSocket(ts *testscript.TestScript) {
	late := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if c, err := s.dial(ts, "unix"); err == nil {
			_ = c.Close()
			return
		}
		select {
		case <-tick.C:
		case <-s.daemon.exited:
			s.fail(ts, "the daemon has ended: %v", s.daemon.err)
		case <-late:
			s.fail(ts, "the daemon does not listen")
		}
	}
}

// stop ends the daemon in good order.
func (s *script) stop(ts *testscript.TestScript) {
	d := s.daemon
	ts.Check(d.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-d.exited:
	case <-time.After(patience):
		s.fail(ts, "the daemon does not end")
	}
	if d.err != nil {
		s.fail(ts, "the daemon ended with %v", d.err)
	}
	s.daemon = nil
}

// kill ends the daemon as a crash would.
func (d *daemon) kill() {
	_ = d.cmd.Process.Kill() // it may have ended
	<-d.exited
}
