// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/ioengine"
)

// Machine is what the figures were measured on. What cannot be found out is empty.
type Machine struct {
	Kernel string `json:"kernel"`
	Arch   string `json:"arch"`
	CPUs   int    `json:"cpus"`
	CPU    string `json:"cpu,omitempty"`
	Memory int64  `json:"memory,omitempty"` // bytes
	Go     string `json:"go"`
	Fio    string `json:"fio,omitempty"`
}

// Device is what was measured.
type Device struct {
	Path       string `json:"path"`
	RealPath   string `json:"real_path"`
	Kind       string `json:"kind"` // file, loop, or the driver's name for it, such as nvme
	Model      string `json:"model,omitempty"`
	Size       int64  `json:"size"`
	Block      int    `json:"block"`
	Physical   int    `json:"physical"`
	Rotational bool   `json:"rotational,omitempty"`
	Scheduler  string `json:"scheduler,omitempty"`
	Loop       string `json:"loop,omitempty"` // the file under a loop device
	LoopFS     string `json:"loop_fs,omitempty"`
	LoopDirect bool   `json:"loop_direct,omitempty"`
	Area       int64  `json:"area"` // bytes from its start that were used
}

func thisMachine(fio *Fio) Machine {
	m := Machine{Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version()}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		m.Memory = int64(info.Totalram) * int64(info.Unit)
	}
	m.CPU = cpuModel()
	if fio != nil {
		m.Fio = fio.Version
	}
	return m
}

func cpuModel() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func describe(dev *ioengine.File) Device {
	geo := dev.Geometry()
	d := Device{Path: dev.Path(), RealPath: dev.RealPath(), Kind: "file", Size: geo.Size, Block: geo.Block, Physical: geo.Physical}
	if geo.Regular {
		return d
	}
	name := filepath.Base(d.RealPath)
	dir := filepath.Join("/sys/class/block", name)
	d.Kind = strings.TrimRight(name, "0123456789")
	if i := strings.IndexAny(name, "0123456789"); i > 0 {
		d.Kind = name[:i]
	}
	d.Model = sysfs(dir, "device/model")
	d.Rotational = sysfs(dir, "queue/rotational") == "1"
	d.Scheduler = between(sysfs(dir, "queue/scheduler"), "[", "]")
	if d.Loop = sysfs(dir, "loop/backing_file"); d.Loop != "" {
		d.LoopDirect = sysfs(dir, "loop/dio") == "1"
		d.LoopFS = fileSystem(d.Loop)
	}
	return d
}

func sysfs(dir, name string) string {
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func between(s, from, to string) string {
	_, s, ok := strings.Cut(s, from)
	s, _, ok2 := strings.Cut(s, to)
	if !ok || !ok2 {
		return ""
	}
	return s
}

func fileSystem(path string) string {
	var st unix.Statfs_t
	if unix.Statfs(path, &st) != nil {
		return ""
	}
	switch st.Type {
	case unix.TMPFS_MAGIC:
		return "tmpfs"
	case unix.EXT4_SUPER_MAGIC:
		return "ext4"
	case unix.XFS_SUPER_MAGIC:
		return "xfs"
	case unix.BTRFS_SUPER_MAGIC:
		return "btrfs"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlay"
	}
	return fmt.Sprintf("0x%x", st.Type)
}

// String says how long things were measured.
func (p Protocol) String() string {
	s := fmt.Sprintf("alternating windows of %v after a ramp of %v; until the 90 %% interval of the median is ±2 %%, at most %v", p.Window, p.Ramp, p.Time)
	if p.Pairs > 0 {
		s += fmt.Sprintf(" and %d pairs", p.Pairs)
	}
	return s + " a figure"
}
