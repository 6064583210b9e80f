// SPDX-License-Identifier: Apache-2.0

package slab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rawblockd/rawblockd/internal/simdev"
	"github.com/rawblockd/rawblockd/internal/testdev"
)

// fakeHost writes files below a folder that stands for /.
func fakeHost(t *testing.T, files map[string]string) host {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return host{sys: filepath.Join(root, "sys"), proc: filepath.Join(root, "proc"), byID: "/dev/disk/by-id"}
}

func TestInUse(t *testing.T) {
	const none = "22 1 0:20 / /sys rw - sysfs sysfs rw\nnonsense\n"
	nvme := target{given: "/dev/nvme0n1", path: "/dev/nvme0n1", devno: "259:0"}
	for _, tc := range []struct {
		name  string
		files map[string]string
		texts []string // none: not refused
	}{
		{"nothing", map[string]string{}, nil},
		{"mounted", map[string]string{
			"proc/self/mountinfo": none + `30 1 259:0 / /mnt/a\040b rw shared:1 - xfs /dev/nvme0n1 rw` + "\n",
		}, []string{"mounted on /mnt/a b", "umount '/mnt/a b'"}},
		{"mounted, btrfs has numbers of its own", map[string]string{
			"proc/self/mountinfo": none + "30 1 0:41 / /data rw - btrfs /dev/nvme0n1 rw\n",
		}, []string{"umount /data"}},
		{"the system's", map[string]string{
			"proc/self/mountinfo": none + "30 1 259:0 /var /var rw - ext4 /dev/nvme0n1 rw\n31 1 259:0 / / rw - ext4 /dev/nvme0n1 rw\n",
		}, []string{"it is the system's disk; name another device"}},
		{"a partition is the system's", map[string]string{
			"proc/self/mountinfo":                     none + "31 1 259:2 / / rw - ext4 /dev/root rw\n",
			"sys/dev/block/259:0/nvme0n1p2/partition": "2", "sys/dev/block/259:0/nvme0n1p2/dev": "259:2\n",
		}, []string{"/dev/nvme0n1p2 is mounted on /", "it is the system's disk"}},
		{"the system is on device mapper", map[string]string{
			"proc/self/mountinfo":                  none + "31 1 253:0 / / rw - ext4 /dev/mapper/vg-root rw\n",
			"sys/dev/block/259:0/holders/dm-0/dev": "253:0\n", "sys/class/block/dm-0/dm/name": "vg-root\n",
		}, []string{"/dev/nvme0n1 is part of /dev/dm-0, which is mounted on /: it is the system's disk"}},
		{"swap", map[string]string{
			"proc/swaps": "Filename Type Size Used Priority\n/dev/nvme0n1 partition 8 0 -2\n",
		}, []string{"swapoff /dev/nvme0n1"}},
		{"device mapper", map[string]string{
			"sys/dev/block/259:0/holders/dm-3":  "",
			"sys/class/block/dm-3/dm/name":      "vg-data\n",
			"sys/dev/block/259:0/unrelated/dev": "1:1",
		}, []string{"part of /dev/dm-3", "dmsetup remove vg-data"}},
		{"md", map[string]string{
			"sys/dev/block/259:0/holders/md0": "",
			"sys/class/block/md0/md/level":    "raid1",
		}, []string{"part of /dev/md0", "mdadm --stop /dev/md0"}},
		{"another holder", map[string]string{
			"sys/dev/block/259:0/holders/bcache0": "",
		}, []string{"part of /dev/bcache0", "lsblk /dev/bcache0"}},
		{"partitions", map[string]string{
			"sys/dev/block/259:0/nvme0n1p1/partition": "1",
			"sys/dev/block/259:0/nvme0n1p2/partition": "2",
		}, []string{"/dev/nvme0n1p1, /dev/nvme0n1p2", "sfdisk --delete /dev/nvme0n1"}},
		{"a partition is mounted", map[string]string{
			"sys/dev/block/259:0/nvme0n1p2/partition": "2",
			"sys/dev/block/259:0/nvme0n1p2/dev":       "259:2\n",
			"proc/self/mountinfo":                     none + "30 1 259:2 / / rw - ext4 /dev/root rw\n",
		}, []string{"/dev/nvme0n1p2 is mounted on /"}},
		{"a partition is part of something", map[string]string{
			"sys/dev/block/259:0/nvme0n1p2/partition":    "2",
			"sys/dev/block/259:0/nvme0n1p2/holders/dm-0": "",
		}, []string{"/dev/nvme0n1p2 is part of /dev/dm-0"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			files := map[string]string{"proc/self/mountinfo": none, "sys/dev/block/259:0/size": "1"}
			for name, text := range tc.files {
				files[name] = text
			}
			h := fakeHost(t, files)
			nvme.sysdir = filepath.Join(h.sys, "dev/block/259:0")
			err := h.inUse(nvme)
			if len(tc.texts) == 0 && err != nil || len(tc.texts) > 0 && !errors.Is(err, ErrRefused) {
				t.Fatalf("got %v", err)
			}
			for _, text := range tc.texts {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q does not say %q", err, text)
				}
			}
		})
	}
	if err := fakeHost(t, nil).inUse(nvme); err == nil {
		t.Error("a host without mountinfo passed")
	}
}

func TestSerials(t *testing.T) {
	for name, file := range map[string]string{"nvme": "device/serial", "virtio": "serial"} {
		h := fakeHost(t, map[string]string{"sys/disk/" + file: "  S4X1 \n"})
		if got := diskSerial(filepath.Join(h.sys, "disk")); got != "S4X1" {
			t.Errorf("%s: got %q", name, got)
		}
	}
	h := fakeHost(t, map[string]string{"sys/disk/device/vpd_pg80": "\x00\x80\x00\x08 WD-1234"})
	if got := diskSerial(filepath.Join(h.sys, "disk")); got != "WD-1234" {
		t.Errorf("scsi: got %q", got)
	}
	if got := diskSerial(filepath.Join(h.sys, "other")); got != "" {
		t.Errorf("none: got %q", got)
	}
}

func TestWipeWantsAnIdentity(t *testing.T) {
	plain := target{given: "/dev/nvme1n1", path: "/dev/nvme1n1", model: "ACME 1T", serial: "S4X 1"}
	byID := target{given: "/dev/disk/by-id/nvme-x", path: "/dev/nvme1n1", serial: "S4X 1", byID: true}
	loop := target{given: "/dev/loop1", path: "/dev/loop1"}
	for _, tc := range []struct {
		name string
		t    target
		o    InitOptions
		text string // "": allowed
	}{
		{"no wipe", plain, InitOptions{}, ""},
		{"wipe by kernel name", plain, InitOptions{Wipe: true}, "ACME 1T serial S4X 1"},
		{"its remedy", plain, InitOptions{Wipe: true}, "run: rawblockd init /dev/nvme1n1 --wipe --serial 'S4X 1'"},
		{"with its serial", plain, InitOptions{Wipe: true, Serial: "S4X 1"}, ""},
		{"with another serial", plain, InitOptions{Wipe: true, Serial: "S4X 2"}, `"S4X 2"`},
		{"another serial without wipe", plain, InitOptions{Serial: "S4X 2"}, `"S4X 2"`},
		{"by id", byID, InitOptions{Wipe: true}, ""},
		{"by id with another serial", byID, InitOptions{Wipe: true, Serial: "x"}, `"x"`},
		{"loop", loop, InitOptions{Wipe: true}, ""},
		{"loop with a serial", loop, InitOptions{Wipe: true, Serial: "x"}, "has no serial"},
	} {
		tc.o.SlotSize = DefaultSlotSize
		err := tc.t.checkSerial(&tc.o)
		if (err == nil) != (tc.text == "") || err != nil && !(errors.Is(err, ErrRefused) && strings.Contains(err.Error(), tc.text)) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.text)
		}
	}
}

func TestTarget(t *testing.T) {
	dev := testdev.Loop(t, testSize, 512)
	h := thisHost()
	h.byID = t.TempDir() // stands for /dev/disk/by-id
	link := filepath.Join(h.byID, "loop-x")
	if err := os.Symlink(dev, link); err != nil {
		t.Fatal(err)
	}
	got, err := h.target(link)
	if err != nil || got.path != dev || !got.byID || got.regular || !exists(got.sysdir) || got.serial != "" {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := h.target(dev); err != nil || got.byID {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestSignature(t *testing.T) {
	const size = 8 * mib
	for _, tc := range []struct {
		name  string
		out   string
		code  int
		err   error
		atEnd bool
		want  string
		fails bool
	}{
		{name: "nothing", code: 2},
		{name: "found", out: "DEVNAME=/dev/x\nUUID=1-2\nTYPE=ext4\nUSAGE=filesystem\n", want: "UUID=1-2 TYPE=ext4"},
		{name: "partition table", out: "PTUUID=7\nPTTYPE=gpt\n", want: "PTUUID=7 PTTYPE=gpt"},
		{name: "only topology", out: "MINIMUM_IO_SIZE=512\n"},
		{name: "at the end", out: "TYPE=zfs_member\n", atEnd: true, want: "TYPE=zfs_member at offset 7340032"},
		{name: "contradiction", code: 8, want: "several signatures"},
		{name: "usage", code: 4, fails: true},
		{name: "does not run", err: errors.New("no"), fails: true},
	} {
		h := host{blkid: func(args ...string) (string, int, error) {
			if want := "-p -o export"; strings.Join(args[:3], " ") != want || args[len(args)-1] != "/dev/x" {
				return "", 0, fmt.Errorf("blkid %v", args)
			}
			if tc.atEnd && len(args) != 6 {
				return "", 2, nil
			}
			return tc.out, tc.code, tc.err
		}}
		got, err := h.signature("/dev/x", simdev.New(simdev.Options{Size: size}).Geometry())
		if (err != nil) != tc.fails || !strings.HasPrefix(got, tc.want) || tc.want == "" && got != "" {
			t.Errorf("%s: got %q, %v, want %q", tc.name, got, err, tc.want)
		}
	}
	if got, err := (host{}).signature("/dev/x", simdev.New(simdev.Options{Size: size}).Geometry()); got != "" || err != nil {
		t.Errorf("no blkid: got %q, %v", got, err)
	}
}

// TestWipeLeavesNothing: what blkid still finds after both zones were cleared keeps
// the label from being written.
func TestWipeLeavesNothing(t *testing.T) {
	path := testdev.File(t, testSize)
	in := hostInit()
	in.host.blkid = func(...string) (string, int, error) { return "TYPE=vmfs\n", 0, nil }
	mustRefuse(t, in, path, InitOptions{}, "TYPE=vmfs")
	if _, err := in.run(path, InitOptions{Wipe: true}); err == nil || !strings.Contains(err.Error(), "wipefs --all "+path) {
		t.Errorf("got %v, want the remedy", err)
	}
	if _, err := Inspect(path); !errors.Is(err, ErrNoLabel) {
		t.Errorf("got %v, want ErrNoLabel", err)
	}
}

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		"": "''", "/dev/nvme0n1": "/dev/nvme0n1", "a b": "'a b'", "it's": `'it'\''s'`, "$(x)": "'$(x)'", "ü": "'ü'",
		"a\nit's \x1b[2J": `$'a\nit\'s \x1b[2J'`, "\xff": `$'\xff'`, `\"`: `'\"'`, "\\\"\t": `$'\\\"\t'`,
	} {
		if got := quote(in); got != want {
			t.Errorf("quote %q: got %s, want %s", in, got, want)
		}
	}
}

func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{`a\040b`: "a b", `\134`: `\`, `a\`: `a\`, `\9999`: `\9999`, `\011`: "\t"} {
		if got := unescape(in); got != want {
			t.Errorf("unescape %q: got %q, want %q", in, got, want)
		}
	}
}

func TestHuman(t *testing.T) {
	for n, want := range map[int64]string{0: "0 bytes", 1000: "1000 bytes", 1024: "1 KiB", mla: "1098 KiB", 2 * mib: "2 MiB", 3 << 30: "3 GiB", mib + 1: "1048577 bytes"} {
		if got := human(n); got != want {
			t.Errorf("human %d: got %q, want %q", n, got, want)
		}
	}
	if got := sizeFlag(1000) + " " + sizeFlag(2*mib); got != "1000 2MiB" {
		t.Errorf("got %q", got)
	}
}

func TestHolderFate(t *testing.T) {
	me, err := CurrentHolder()
	if err != nil {
		t.Fatal(err)
	}
	gone, rebooted, elsewhere := me, me, me
	gone.PID = 1 << 30
	rebooted.BootID = "x"
	elsewhere.BootID, elsewhere.Host = "y", "elsewhere.example"
	evil := Holder{Host: "a\x1b[2J", BootID: "b\nc"}
	for h, want := range map[Holder]string{
		evil: `on $'a\x1b[2J' (another host, boot id $'b\nc')`,
		{}:   "nobody yet", me: "running on this host", gone: "no longer running", rebooted: "before the last boot", elsewhere: "another host",
	} {
		if got := h.String(); !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
