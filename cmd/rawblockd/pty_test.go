// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is a pseudo terminal: what a command has as stdin and stdout, and the
// keyboard and the screen of who sits before it.
type terminal struct {
	t       *testing.T
	end     *os.File // the command's
	master  *os.File
	drained chan struct{}

	mu sync.Mutex
	// +checklocks:mu
	shown bytes.Buffer
	grown chan struct{} // holds one when something was shown
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	w := &terminal{t: t, master: os.NewFile(uintptr(fd), "ptmx"), drained: make(chan struct{}), grown: make(chan struct{}, 1)}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		w.end, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	go w.drain()
	t.Cleanup(func() {
		_ = w.end.Close()
		_ = w.master.Close()
		<-w.drained
	})
	return w
}

func (w *terminal) drain() {
	defer close(w.drained)
	b := make([]byte, 4096)
	for {
		n, err := w.master.Read(b)
		w.mu.Lock()
		w.shown.Write(b[:n])
		w.mu.Unlock()
		select {
		case w.grown <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

func (w *terminal) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.shown.String()
}

// await returns when ready says that enough is shown.
func (w *terminal) await(ready func(text string) bool) {
	w.t.Helper()
	late := time.After(20 * time.Second)
	for !ready(w.text()) {
		select {
		case <-w.grown:
		case <-late:
			w.t.Fatalf("the terminal shows only %q", w.text())
		}
	}
}

func (w *terminal) types(text string) {
	w.t.Helper()
	if _, err := w.master.WriteString(text); err != nil {
		w.t.Fatal(err)
	}
}
