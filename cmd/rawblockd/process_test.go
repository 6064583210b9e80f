// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/config"
)

// process is a daemon in a process of its own, which is this test's binary: for
// tests that look at what it takes of the machine, or at how it starts anew.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	log    *signalWriter
	exited chan error
	http   string // host:port of the data listener; empty without one
	done   bool
}

// startProcess starts a daemon and waits until it serves. It is ended with the test.
func startProcess(t *testing.T, c *config.Config, env ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return startCommand(t, exec.Command(self, "serve", "--config", write(t, c)), env...)
}

// startCommand starts cmd, which becomes a daemon.
func startCommand(t *testing.T, cmd *exec.Cmd, env ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, log: newSignalWriter("msg=serving"), exited: make(chan error, 1)}
	p.cmd.Env = append(append(os.Environ(), beDaemon+"=1"), env...)
	p.cmd.Stderr = p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.exited <- p.cmd.Wait() }()
	t.Cleanup(p.stop)
	select {
	case <-p.log.seen:
	case err := <-p.exited:
		p.done = true
		t.Fatalf("serve: %v: %s", err, p.log)
	}
	if m := regexp.MustCompile(`msg=serving .*http=(\S+)`).FindStringSubmatch(p.log.String()); m != nil && m[1] != `""` {
		p.http = m[1]
	}
	return p
}

// stop ends it as an operator does.
func (p *process) stop() {
	p.t.Helper()
	if p.done {
		return
	}
	p.done = true
	if err := p.cmd.Process.Signal(unix.SIGTERM); err != nil {
		p.t.Error(err)
	}
	if err := <-p.exited; err != nil {
		p.t.Errorf("the daemon ended with %v: %s", err, p.log)
	}
}

// memory returns a figure of its memory in bytes: VmRSS now, VmHWM at most so far.
func (p *process) memory(name string) int64 {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	m := regexp.MustCompile(name + `:\s+(\d+) kB`).FindSubmatch(text)
	if m == nil {
		p.t.Fatalf("no %s in %s", name, text)
	}
	kb, err := strconv.ParseInt(string(m[1]), 10, 64)
	if err != nil {
		p.t.Fatal(err)
	}
	return kb << 10
}
