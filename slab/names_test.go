// SPDX-License-Identifier: Apache-2.0

package slab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rawblockd/rawblockd/internal/testdev"
	"github.com/rawblockd/rawblockd/ioengine"
)

// mustSay checks an error, and that its text says all of texts.
func mustSay(t *testing.T, err, want error, texts ...string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q does not say %q", err, text)
		}
	}
}

// TestWipeThroughAnotherName: a slab that is served is refused under every name that
// its bytes have, for init and for a second daemon, and the refusal says by what name
// it is held.
func TestWipeThroughAnotherName(t *testing.T) {
	for name, make := range map[string]func(t *testing.T) (held, other string){
		"file, loop device": func(t *testing.T) (string, string) {
			file := testdev.File(t, testSize)
			return file, testdev.LoopOver(t, file, 512)
		},
		"loop device, loop device": func(t *testing.T) (string, string) {
			file := testdev.File(t, testSize)
			return testdev.LoopOver(t, file, 512), testdev.LoopOver(t, file, 4096)
		},
		"loop device, loop device over it": func(t *testing.T) (string, string) {
			dev := testdev.Loop(t, testSize, 512)
			return dev, testdev.LoopOver(t, dev, 512)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // the opener tries for two seconds
			held, other := make(t)
			r := served(t, held)
			want := []string{"slab without a name (incarnation " + UUID(r.Label().Incarnation), "running on this host", held + ", which has the same bytes", "fuser -v " + held}
			mustRefuse(t, hostInit(), other, InitOptions{Wipe: true}, want...)
			_, err := OpenDevice(other)
			mustSay(t, err, ioengine.ErrHeld, want...)
		})
	}
}

// served makes a slab and opens it as a daemon does.
func served(t *testing.T, path string) rig {
	t.Helper()
	plain, err := ioengine.Open(path, ioengine.OpenOptions{}) // Init refuses what is attached already
	if err != nil {
		t.Fatal(err)
	}
	mustInit(t, plain, InitOptions{})
	if err := plain.Close(); err != nil {
		t.Fatal(err)
	}
	dev, err := OpenDevice(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dev.Close() })
	r := open(t, dev, Options{})
	me, err := CurrentHolder()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.SetMount(1, me); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestInitRefusesWhatALoopShows, under whatever name it was attached.
func TestInitRefusesWhatALoopShows(t *testing.T) {
	file := testdev.File(t, testSize)
	link := filepath.Join(filepath.Dir(file), "hard link")
	if err := os.Link(file, link); err != nil {
		t.Skipf("no hard links here: %v", err)
	}
	a, b := testdev.LoopOver(t, file, 512), testdev.LoopOver(t, file, 512)
	mustRefuse(t, hostInit(), link, InitOptions{Wipe: true}, "attached as "+a+", "+b, "losetup -d "+a+" "+b)
	nested := testdev.LoopOver(t, a, 512)
	mustRefuse(t, hostInit(), a, InitOptions{Wipe: true}, "attached as "+nested, "losetup -d "+nested)
}

// holding starts a process that has a file open, and returns its number and an end.
func holding(t *testing.T, path string) (pid int, end func()) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("cat")
	cmd.ExtraFiles = []*os.File{f}
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	end = func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	}
	t.Cleanup(end)
	return cmd.Process.Pid, end
}

// TestWipeRefusesALivingHolder: no claim covers a second path to the same disk, and a
// copy is the nearest to it that a test can have.
func TestWipeRefusesALivingHolder(t *testing.T) {
	first := testdev.File(t, testSize)
	l, err := Init(first, InitOptions{Name: "fast0"})
	if err != nil {
		t.Fatal(err)
	}
	me, err := CurrentHolder()
	if err != nil {
		t.Fatal(err)
	}
	disk := testdev.LoopOver(t, first, 512)
	pid, end := holding(t, disk)
	other := testdev.Loop(t, testSize, 512)
	if _, err := Init(other, InitOptions{}); err != nil {
		t.Fatal(err)
	}
	stranger, _ := holding(t, other)
	mount := func(h Holder) string { // the label of first, with a holder, on another device
		l.Holder, l.Epoch = h, l.Epoch+1
		path := testdev.Loop(t, testSize, 512)
		for _, off := range labelOffsets(testSize) {
			put(t, path, off, EncodeLabel(&l))
		}
		return path
	}
	served := mount(Holder{me.Host, me.BootID, pid}) // a copy that was made before the process mounted its own again
	if _, err := Init(served, InitOptions{Wipe: true}); err != nil {
		t.Errorf("a copy of what a process serves: %v", err)
	}
	alive := mount(Holder{me.Host, me.BootID, pid})
	for _, off := range labelOffsets(testSize) {
		put(t, disk, off, EncodeLabel(&l))
	}
	mustRefuse(t, hostInit(), alive, InitOptions{Wipe: true},
		`slab "fast0" (incarnation `+UUID(l.Incarnation), fmt.Sprintf("pid %d has open as %s", pid, disk), "stop that process first")
	for name, h := range map[string]Holder{
		"a process of that number that has another slab open": {me.Host, me.BootID, stranger},
		"before the last boot":                                {me.Host, "another boot", pid},
		"nobody":                                              {},
		"no process":                                          {me.Host, me.BootID, 1 << 30},
		"this process, a test is":                             me,
	} {
		if _, err := Init(mount(h), InitOptions{Wipe: true}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	end()
	wipes(t, alive, InitOptions{})
}

// TestWipeWithoutALookAtTheHolder: who may not see what a process has open has only
// its name to go by.
func TestWipeWithoutALookAtTheHolder(t *testing.T) {
	me, err := CurrentHolder()
	if err != nil {
		t.Fatal(err)
	}
	dev, err := ioengine.Open(testdev.File(t, testSize), ioengine.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	l := mustInit(t, dev, InitOptions{})
	l.Holder, l.Epoch = Holder{me.Host, me.BootID, 4711}, l.Epoch+1
	if err := writeLabels(dev, EncodeLabel(&l)); err != nil {
		t.Fatal(err)
	}
	for comm, refused := range map[string]bool{"rawblockd": true, "bash": false} {
		h := fakeHost(t, map[string]string{"proc/4711/comm": comm + "\n", "proc/4711/fd/3": ""})
		h.readDir = func(string) ([]os.DirEntry, error) { return nil, os.ErrPermission }
		err := h.servedElsewhere(target{path: "/dev/x"}, dev)
		if errors.Is(err, ErrRefused) != refused || err != nil && !strings.Contains(err.Error(), "pid 4711") {
			t.Errorf("%s: got %v", comm, err)
		}
	}
}
