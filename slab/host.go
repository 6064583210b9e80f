// SPDX-License-Identifier: Apache-2.0

package slab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/ioengine"
)

// host is where Init looks things up; tests put other folders and another blkid
// into it.
type host struct {
	sys, proc, byID string
	blkid           func(args ...string) (stdout string, code int, err error) // nil: not installed
	loops           func(path string) ([]string, error)                       // loop devices over a path; nil: none
	readDir         func(path string) ([]os.DirEntry, error)                  // of /proc, where permission matters
}

func thisHost() host {
	h := host{sys: "/sys", proc: "/proc", byID: "/dev/disk/by-id", loops: ioengine.LoopsOver, readDir: os.ReadDir}
	if path := findProgram("blkid"); path != "" {
		h.blkid = func(args ...string) (string, int, error) { return runProgram(path, args...) }
	}
	return h
}

// findProgram also looks where services and plain users have no PATH.
func findProgram(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	return ""
}

// runProgram returns what a program printed and its exit code; an error means that
// it did not get that far.
func runProgram(path string, args ...string) (string, int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return stdout.String(), exit.ExitCode(), nil
	}
	if err != nil {
		return "", 0, fmt.Errorf("run %s: %w", path, err)
	}
	return stdout.String(), 0, nil
}

// target is what Init is pointed at.
type target struct {
	given, path string // as typed; without symbolic links
	regular     bool
	byID        bool   // given is a by-id path
	devno       string // "major:minor" of a block device
	sysdir      string // its folder in sysfs
	model       string // "" where the device has none
	serial      string
}

// target resolves a path and asks sysfs who that is.
func (h host) target(given string) (target, error) {
	path, err := filepath.EvalSymlinks(given)
	if err != nil {
		return target{}, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return target{}, err
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return target{}, fmt.Errorf("stat %q: %w", path, err)
	}
	t := target{given: given, path: path}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		t.regular = true
		return t, nil
	case unix.S_IFBLK:
	default:
		return target{}, fmt.Errorf("%w: %q is neither a block device nor a regular file", ErrRefused, path)
	}
	if abs, err := filepath.Abs(given); err == nil {
		t.byID = strings.HasPrefix(filepath.Clean(abs), h.byID+"/")
	}
	t.devno = fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
	t.sysdir = filepath.Join(h.sys, "dev/block", t.devno)
	disk := t.sysdir
	if exists(filepath.Join(disk, "partition")) {
		disk = parentDisk(disk)
	}
	t.model = readLine(filepath.Join(disk, "device/model"))
	t.serial = diskSerial(disk)
	return t, nil
}

// parentDisk returns the sysfs folder of the disk a partition lies on.
func parentDisk(sysdir string) string {
	if real, err := filepath.EvalSymlinks(sysdir); err == nil {
		return filepath.Dir(real)
	}
	return sysdir
}

// diskSerial knows where NVMe and MMC, virtio and SCSI disks keep it.
func diskSerial(disk string) string {
	for _, name := range []string{"device/serial", "serial"} {
		if s := readLine(filepath.Join(disk, name)); s != "" {
			return s
		}
	}
	// Vital product data page 0x80: a header of four bytes, then the serial.
	if page, err := os.ReadFile(filepath.Join(disk, "device/vpd_pg80")); err == nil && len(page) > 4 {
		return strings.Trim(string(page[4:]), " \x00\n")
	}
	return ""
}

// checkSerial makes sure that a device is the one that was meant, for names like
// /dev/nvme1n1 change with the next boot.
func (t target) checkSerial(o *InitOptions) error {
	if o.Serial != "" && t.serial == "" {
		return fmt.Errorf("%w: %s has no serial, so it is not %q; nothing was changed", ErrRefused, t.path, o.Serial)
	}
	if o.Serial != "" && o.Serial != t.serial {
		return fmt.Errorf("%w: %s has the serial %q, not %q; nothing was changed", ErrRefused, t.path, t.serial, o.Serial)
	}
	if !o.Wipe || t.serial == "" || o.Serial != "" || t.byID {
		return nil
	}
	return fmt.Errorf("%w: to wipe %s (%s), name it by its path in /dev/disk/by-id or by its serial, run: %s",
		ErrRefused, t.path, strings.TrimSpace(t.model+" serial "+t.serial), t.wipeCommand(o))
}

// wipeCommand is the command that destroys what is there.
func (t target) wipeCommand(o *InitOptions) string {
	c := command(t.given, o)
	if !o.Wipe {
		c += " --wipe"
	}
	if t.serial != "" && o.Serial == "" && !t.byID {
		c += " --serial " + quote(t.serial)
	}
	return c
}

// command spells the init command with the options given, but for --size.
func command(path string, o *InitOptions) string {
	c := "rawblockd init " + quote(path)
	if o.SlotSize != DefaultSlotSize {
		c += " --slot-size " + sizeFlag(o.SlotSize)
	}
	if o.Name != "" {
		c += " --name " + quote(o.Name)
	}
	if o.Wipe {
		c += " --wipe"
	}
	if o.Serial != "" {
		c += " --serial " + quote(o.Serial)
	}
	return c
}

// quote makes a word that a shell takes as it is.
func quote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+:,@=%", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	if !printable(s) {
		text := strconv.QuoteToASCII(s) // a shell knows the same escapes
		return "$'" + strings.ReplaceAll(text[1:len(text)-1], "'", `\'`) + "'"
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// printable reports whether a text can be shown as it is.
func printable(s string) bool {
	control := func(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }
	return utf8.ValidString(s) && strings.IndexFunc(s, control) < 0
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// readLine returns a small file without surrounding blanks, or "".
func readLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.Trim(string(b), " \n\x00")
}
