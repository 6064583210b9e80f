// SPDX-License-Identifier: Apache-2.0

package slab

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// bootIDPath names the running boot of a host.
const bootIDPath = "/proc/sys/kernel/random/boot_id"

// labelState is the label as last written.
type labelState struct {
	mu    sync.Mutex
	label Label  // +checklocks:mu
	raw   []byte // +checklocks:mu
	epoch uint64 // +checklocks:mu
	busy  bool   // +checklocks:mu
}

func (ls *labelState) init(l Label, raw []byte) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.label, ls.raw, ls.epoch = l, raw, l.Epoch
}

func (ls *labelState) get() Label {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.label
}

// begin prepares the next label. An epoch that was tried is never used again, for
// some copies may carry it already.
func (ls *labelState) begin(n uint64, h Holder) (Label, []byte, error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.busy {
		return Label{}, nil, errors.New("the label is being written by another call")
	}
	ls.busy = true
	ls.epoch++
	l, raw := ls.label, slices.Clone(ls.raw)
	l.Mount, l.Holder, l.Epoch = n, h, ls.epoch
	patchLabel(raw, &l)
	return l, raw, nil
}

func (ls *labelState) end(l Label, raw []byte, err error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.busy = false
	if err == nil {
		ls.label, ls.raw = l, raw
	}
}

// SetMount writes mount number and holder into all label copies, and thereby
// repairs copies that were bad. After an error some copies may be new and some
// old; the mount must not go on (unless nothing more is written: ServeOnly), and the
// next one copes with both.
func (s *Slab) SetMount(n uint64, h Holder) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.life.leave()
	if err := s.readOnlyErr(); err != nil {
		return err
	}
	l, raw, err := s.label.begin(n, h)
	if err != nil {
		return fmt.Errorf("%s: %w", title(s.name), err)
	}
	err = withFlock(s.dev, func() error { return writeLabels(s.dev, raw) })
	s.label.end(l, raw, err)
	if err != nil {
		return fmt.Errorf("%s: mount %d: %w", title(s.name), n, err)
	}
	return nil
}

// CurrentHolder describes this process, for SetMount.
func CurrentHolder() (Holder, error) {
	host, err := os.Hostname()
	if err != nil {
		return Holder{}, fmt.Errorf("host name: %w", err)
	}
	boot, err := os.ReadFile(bootIDPath)
	if err != nil {
		return Holder{}, fmt.Errorf("boot id: %w", err)
	}
	return Holder{Host: host, BootID: strings.TrimSpace(string(boot)), PID: os.Getpid()}, nil
}

// String describes the holder and what can be known of it from here.
func (h Holder) String() string {
	if h == (Holder{}) {
		return "nobody yet"
	}
	return fmt.Sprintf("pid %d on %s (%s)", h.PID, shown(h.Host), h.fate())
}

// shown keeps a label that somebody else wrote from spoiling a terminal.
func shown(s string) string {
	if printable(s) {
		return s
	}
	return quote(s)
}

// fate compares a holder with the running system. Another host may share the
// device over a fabric; nothing can be said about its processes.
func (h Holder) fate() string {
	here, err := CurrentHolder()
	switch {
	case err != nil:
		return "boot id " + shown(h.BootID)
	case here.BootID == h.BootID && h.PID > 0 && unix.Kill(h.PID, 0) != unix.ESRCH:
		return "running on this host"
	case here.BootID == h.BootID:
		return "on this host, no longer running"
	case here.Host == h.Host:
		return "before the last boot of this host"
	}
	return "another host, boot id " + shown(h.BootID)
}
