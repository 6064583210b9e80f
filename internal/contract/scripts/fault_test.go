// SPDX-License-Identifier: Apache-2.0

package scripts

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"unsafe"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// faults says why devices and file systems cannot be made to fail here, or
// nothing if they can.
var faults = sync.OnceValue(func() string {
	if os.Geteuid() != 0 {
		return "not root"
	}
	for _, program := range []string{"mount", "umount", "mkfs.ext4", "fsfreeze", "fallocate", "dd", "losetup"} {
		if _, err := exec.LookPath(program); err != nil {
			return err.Error()
		}
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		return err.Error()
	}
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_CONTENT|unix.FAN_CLOEXEC, unix.O_RDONLY)
	if err != nil {
		return fmt.Sprintf("fanotify: %v", err)
	}
	_ = unix.Close(fd)
	return ""
})

// cmdFlip damages a text where it stands in a file, which the daemon has open.
func cmdFlip(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		usage(ts, "flip FILE TEXT")
	}
	name := ts.MkAbs(args[0])
	b, err := os.ReadFile(name)
	ts.Check(err)
	at := bytes.Index(b, []byte(args[1]))
	if at < 0 {
		ts.Fatalf("%q does not stand in %s", args[1], name)
	}
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	ts.Check(err)
	_, err = f.WriteAt([]byte{b[at] ^ 1}, int64(at))
	ts.Check(errors.Join(err, f.Sync(), f.Close()))
}

// watch decides what becomes of the reads of one file, by fanotify: the kernel
// asks before each of them. A file must be watched before it is opened.
type watch struct {
	file *os.File // the fanotify group
	done chan struct{}

	mu   sync.Mutex
	cond *sync.Cond
	// +checklocks:mu
	mode string // allow, hold, deny; "": closed
}

func cmdReads(ts *testscript.TestScript, neg bool, args []string) {
	s := of(ts)
	if neg || len(args) != 2 {
		usage(ts, "reads FILE watch|hold|deny|allow")
	}
	name := ts.MkAbs(args[0])
	if args[1] == "watch" {
		w, err := newWatch(name)
		ts.Check(err)
		s.watches[name] = w
		return
	}
	s.watches[name].set(args[1])
}

func newWatch(name string) (*watch, error) {
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_CONTENT|unix.FAN_CLOEXEC|unix.FAN_NONBLOCK, unix.O_RDONLY|unix.O_LARGEFILE)
	if err != nil {
		return nil, fmt.Errorf("fanotify: %w", err)
	}
	if err := unix.FanotifyMark(fd, unix.FAN_MARK_ADD, unix.FAN_ACCESS_PERM, unix.AT_FDCWD, name); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("watch %s: %w", name, err)
	}
	w := &watch{file: os.NewFile(uintptr(fd), "fanotify"), done: make(chan struct{}), mode: "allow"}
	w.cond = sync.NewCond(&w.mu)
	go w.run()
	return w, nil
}

func (w *watch) set(mode string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mode = mode
	w.cond.Broadcast()
}

// close lets all reads go on.
func (w *watch) close() {
	w.set("")
	_ = w.file.Close()
	<-w.done
}

// run answers the kernel. While reads are held it does not.
func (w *watch) run() {
	defer close(w.done)
	buf := make([]byte, 4096)
	for {
		n, err := w.file.Read(buf)
		if err != nil {
			return
		}
		for b := buf[:n]; len(b) > 0; {
			e := (*unix.FanotifyEventMetadata)(unsafe.Pointer(&b[0]))
			w.answer(e.Fd)
			b = b[e.Event_len:]
		}
	}
}

func (w *watch) answer(fd int32) {
	w.mu.Lock()
	for w.mode == "hold" {
		w.cond.Wait()
	}
	deny := w.mode == "deny"
	w.mu.Unlock()
	r := unix.FanotifyResponse{Fd: fd, Response: unix.FAN_ALLOW}
	if deny {
		r.Response = unix.FAN_DENY
	}
	_, _ = w.file.Write((*[unsafe.Sizeof(r)]byte)(unsafe.Pointer(&r))[:]) // a closed group lets all go on
	_ = unix.Close(int(fd))
}

// cmdFilesystem mounts a new ext4 file system of its own on a folder.
func cmdFilesystem(ts *testscript.TestScript, neg bool, args []string) {
	s := of(ts)
	if neg || len(args) != 2 {
		usage(ts, "filesystem DIR SIZE")
	}
	dir := ts.MkAbs(args[0])
	image := filepath.Join(s.sockets, filepath.Base(dir)+".ext4")
	ts.Check(os.MkdirAll(dir, 0o755))
	run := func(name string, args ...string) {
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			ts.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
	}
	run("mkfs.ext4", "-q", "-m", "0", image, args[1])
	run("mount", "-o", "loop", image, dir)
	s.thaws = append(s.thaws, func() { _ = exec.Command("fsfreeze", "-u", dir).Run() }) // it may not be frozen
	s.end = append(s.end, func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			ts.Logf("umount %s: %v %s", dir, err, out)
		}
	})
}

// cmdLoop makes a block device of a file and puts its path into a variable.
func cmdLoop(ts *testscript.TestScript, neg bool, args []string) {
	s := of(ts)
	if neg || len(args) != 2 {
		usage(ts, "loop NAME FILE")
	}
	out, err := exec.Command("losetup", "--find", "--show", "--direct-io=on", ts.MkAbs(args[1])).Output()
	ts.Check(err)
	dev := strings.TrimSpace(string(out))
	ts.Setenv(args[0], dev)
	s.end = append(s.end, func() {
		if out, err := exec.Command("losetup", "--detach", dev).CombinedOutput(); err != nil {
			ts.Logf("detach %s: %v %s", dev, err, out)
		}
	})
}

// cmdFreeze lets every change of a file system wait.
func cmdFreeze(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(exec.Command("fsfreeze", "-f", ts.MkAbs(args[0])).Run())
}

func cmdThaw(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(exec.Command("fsfreeze", "-u", ts.MkAbs(args[0])).Run())
}

// cmdShutdown makes a file system fail every change from now on, as a disk does
// that has died.
func cmdShutdown(ts *testscript.TestScript, neg bool, args []string) {
	const ioctlShutdown = 0x8004587d // EXT4_IOC_SHUTDOWN
	dir, err := os.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	how := uint32(2) // without its journal
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, dir.Fd(), ioctlShutdown, uintptr(unsafe.Pointer(&how)))
	ts.Check(dir.Close())
	if errno != 0 {
		ts.Fatalf("shut down %s: %v", dir.Name(), errno)
	}
}
