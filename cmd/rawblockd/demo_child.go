// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/rawblockd/rawblockd/client"
)

// child is the daemon, as a process of its own that can be killed.
type child struct {
	binary string
	place  *demoPlace
	cmd    *exec.Cmd
	ended  chan struct{} // closed when the process is gone; nil: none was started
	err    error         // of its end; read after ended
}

const (
	startWithin = 20 * time.Second
	askEvery    = 10 * time.Millisecond
	endWithin   = stopWithin + 2*time.Second
)

// start runs the daemon and returns when it serves.
func (p *child) start(ctx context.Context, cl *client.Client) error {
	log, err := os.OpenFile(p.place.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the process has its own
	p.cmd = exec.Command(p.binary, "serve", "--config", p.place.config)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Env = cleanEnv(os.Environ())
	// A group of its own, so that Ctrl-C reaches only the demo, which then ends
	// the daemon; and it never outlives the demo, however that ends.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	ended, started := make(chan struct{}), make(chan error)
	go func() {
		defer close(ended)
		runtime.LockOSThread() // the kernel sends Pdeathsig when this thread ends
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start the daemon: %w", err)
	}
	p.ended = ended
	return p.awaitReady(ctx, cl)
}

func (p *child) awaitReady(ctx context.Context, cl *client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		r, err := cl.Ready(ctx)
		if err == nil && r.Ready {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.ended:
			return fmt.Errorf("the daemon ended before it served: %w", errors.Join(p.err, errors.New("see its log")))
		case <-ctx.Done():
			return fmt.Errorf("the daemon does not serve: %w", errors.Join(err, ctx.Err()))
		}
	}
}

// kill is kill -9: the daemon gets no chance to do anything.
func (p *child) kill() error {
	if err := p.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill the daemon: %w", err)
	}
	<-p.ended
	return nil
}

// stop ends the daemon if it runs, and waits for it.
func (p *child) stop() error {
	if p.ended == nil {
		return nil
	}
	select {
	case <-p.ended:
		return nil
	default:
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop the daemon: %w", err)
	}
	timer := time.NewTimer(endWithin)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
		return errors.Join(errors.New("the daemon did not stop in time"), p.kill())
	}
	if p.err != nil {
		return fmt.Errorf("the daemon's end: %w", p.err)
	}
	return nil
}

// cleanEnv drops what would change the daemon that the demo configures.
func cleanEnv(env []string) []string {
	var out []string
	for _, kv := range env {
		if !strings.HasPrefix(kv, "RAWBLOCKD_") && !strings.HasPrefix(kv, "NOTIFY_SOCKET=") {
			out = append(out, kv)
		}
	}
	return out
}
