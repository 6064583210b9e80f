// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rawblockd/rawblockd/config"
	"github.com/rawblockd/rawblockd/internal/testdev"
	"github.com/rawblockd/rawblockd/slab"
)

// refused runs serve, which must fail with code and name all of want on one
// line.
func refused(t *testing.T, code int, path string, want ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // one that is not refused serves on
	defer cancel()
	r := commandWith(ctx, "", "serve", "--config", path)
	var last string
	for line := range strings.Lines(r.errors) {
		if strings.HasPrefix(line, "rawblockd: ") {
			last = line
		}
	}
	if r.code != code {
		t.Errorf("got exit code %d, want %d: %s", r.code, code, r.errors)
	}
	for _, w := range want {
		if !strings.Contains(last, w) {
			t.Errorf("the error\n  %sdoes not say\n  %s", last, w)
		}
	}
}

// bytesOf is to see that a refusal wrote nothing.
func bytesOf(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestRefusedConfigurations(t *testing.T) {
	dir := t.TempDir()
	const head = "slabs: [{name: a, device: /dev/a}]\n"
	tests := map[string]struct {
		text string
		want []string
	}{
		"unknown key": {head + "log: {levle: info}\n", []string{"line 2: log.levle: unknown key", `did you mean "level"?`}},
		"case":        {head + "log:\n  level: info\n  LEVEL: debug\n", []string{`line 4: log.LEVEL: differs only in case from "level" on line 3`}},
		"unit":        {head + "meta: {cache_size: 64M}\n", []string{"line 2: meta.cache_size:", `"64M"`, "allowed are B, KiB, MiB"}},
		"discard":     {"slabs: [{name: a, device: /dev/a, discard: on_init}]\n", []string{"slabs[0].discard:", "discard is not in this release", "write off"}},
		"beyond":      {head + "listen: {http: '0.0.0.0:9200'}\n", []string{"listen.http:", "reachable from beyond this host", "auth.token_file"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, name+".yaml")
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			refused(t, exitUsage, path, append(tt.want, path)...)
		})
	}
}

func TestFlagsAreValidated(t *testing.T) {
	path := write(t, testConfig(t, shortDir(t)))
	r := command(t, "serve", "--config", path, "--http", "0.0.0.0:9200")
	if r.code != exitUsage || !strings.Contains(r.errors, "listen.http: \"0.0.0.0:9200\" is reachable from beyond this host") {
		t.Errorf("got %+v", r)
	}
}

func TestRefusedDevices(t *testing.T) {
	t.Run("missing", func(t *testing.T) {
		c := testConfig(t, shortDir(t))
		c.Slabs[0].Device = filepath.Join(t.TempDir(), "nvme9n9")
		refused(t, exitFailed, write(t, c), c.Slabs[0].Device, "no such file", "correct slabs.device", "rawblockd init")
		if _, err := os.Stat(c.Meta.Path); err == nil {
			t.Error("a refused start made a metadata directory")
		}
	})
	t.Run("directory", func(t *testing.T) {
		c := testConfig(t, shortDir(t))
		c.Slabs[0].Device = t.TempDir()
		refused(t, exitFailed, write(t, c), c.Slabs[0].Device, "is a directory, want a block device or a regular file")
	})
	t.Run("no label", func(t *testing.T) {
		c := testConfig(t, shortDir(t))
		c.Slabs[0].Device = testdev.File(t, 16<<20)
		refused(t, exitFailed, write(t, c), c.Slabs[0].Device, `slab "dev"`, "run: rawblockd init "+c.Slabs[0].Device)
		if strings.Trim(bytesOf(t, c.Slabs[0].Device), "\x00") != "" {
			t.Error("a refused start wrote to the device")
		}
	})
	t.Run("geometry", func(t *testing.T) { // C11
		c := testConfig(t, shortDir(t))
		before := bytesOf(t, c.Slabs[0].Device)
		c.Slabs[0].SlotSize = 4 * config.MiB
		refused(t, exitFailed, write(t, c), `slab "dev"`, c.Slabs[0].Device, "4 MiB in the configuration", "2 MiB on the label", "Set slot_size: 2MiB", "rawblockd init")
		if bytesOf(t, c.Slabs[0].Device) != before {
			t.Error("a refused start wrote to the device")
		}
	})
}

// TestDeviceHeld is C17: a second daemon on the same device, also through
// another name of it.
func TestDeviceHeld(t *testing.T) {
	places := map[string]func(t *testing.T) string{
		"file": func(t *testing.T) string { return testdev.File(t, testSlab) },
		"loop": func(t *testing.T) string { return testdev.Loop(t, testSlab, 512) },
	}
	for name, place := range places {
		t.Run(name, func(t *testing.T) {
			dev := place(t)
			if _, err := slab.Init(dev, slab.InitOptions{Name: "shared"}); err != nil {
				t.Fatal(err)
			}
			first := testConfig(t, shortDir(t))
			first.Slabs[0].Device = dev
			serve(t, "--config", write(t, first))
			link := filepath.Join(t.TempDir(), "link")
			if err := os.Symlink(dev, link); err != nil {
				t.Fatal(err)
			}
			for _, path := range []string{dev, link} {
				second := testConfig(t, shortDir(t))
				second.Slabs[0].Device = path
				refused(t, exitFailed, write(t, second), path, "held by another process", "shared", fmt.Sprintf("pid %d", os.Getpid()))
			}
			if got := ok(t, "inspect", link); !strings.Contains(got, fmt.Sprintf("pid %d", os.Getpid())) {
				t.Errorf("inspect of a held device does not name the holder: %s", got)
			}
		})
	}
}

func TestMetadataOfAnotherDevice(t *testing.T) {
	a, b := testConfig(t, shortDir(t)), testConfig(t, shortDir(t))
	for _, c := range []*config.Config{a, b} {
		serve(t, "--config", write(t, c)).end()
	}
	before := bytesOf(t, a.Slabs[0].Device)
	mixed := *a
	mixed.Meta.Path = b.Meta.Path
	refused(t, exitFailed, write(t, &mixed), `slab "dev"`, "mounted 1 times", "meta.path is wrong", "set meta.path to the directory", "rawblockd init "+a.Slabs[0].Device+" --wipe")
	if bytesOf(t, a.Slabs[0].Device) != before {
		t.Error("a refused start wrote to the device")
	}
	serve(t, "--config", write(t, a)).end() // nothing was spoilt
}

// below lists what is in a directory, with the sizes of files.
func below(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && !e.IsDir() {
			path += fmt.Sprintf(" %d", info.Size())
		}
		all = append(all, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, "\n")
}

// TestMetadataLost: a slab that was mounted before and no metadata is refused
// before anything is made in its place.
func TestMetadataLost(t *testing.T) {
	for name, lose := range map[string]func(path string) error{
		"gone":  os.RemoveAll,
		"empty": func(path string) error { return errors.Join(os.RemoveAll(path), os.Mkdir(path, 0o700)) },
		"only the rest of an earlier try": func(path string) error {
			return errors.Join(os.RemoveAll(filepath.Join(path, "pebble")), os.Remove(filepath.Join(path, "ballast")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := shortDir(t)
			c := testConfig(t, dir)
			path := write(t, c)
			serve(t, "--config", path).end()
			if err := lose(c.Meta.Path); err != nil {
				t.Fatal(err)
			}
			before, slabBefore := below(t, dir), bytesOf(t, c.Slabs[0].Device)
			refused(t, exitFailed, path, `slab "dev"`, c.Slabs[0].Device, "mounted 1 times", c.Meta.Path,
				"the metadata was lost or meta.path is wrong", "rawblockd init "+c.Slabs[0].Device+" --wipe")
			if after := below(t, dir); after != before {
				t.Errorf("a refused start changed\n%s\ninto\n%s", before, after)
			}
			if bytesOf(t, c.Slabs[0].Device) != slabBefore {
				t.Error("a refused start wrote to the device")
			}
		})
	}
}

// TestNoMetadataDirectory: what is at meta.path and is no metadata of ours is
// named with its path, the reason and the remedy, and stays as it is.
func TestNoMetadataDirectory(t *testing.T) {
	manifest := func(path string) error {
		names, err := filepath.Glob(filepath.Join(path, "pebble", "MANIFEST-*"))
		for _, n := range names {
			err = errors.Join(err, os.Truncate(n, 0))
		}
		return err
	}
	for name, tt := range map[string]struct {
		served bool
		spoil  func(path string) error
		want   []string
	}{
		"file":   {false, func(path string) error { return os.WriteFile(path, []byte("x"), 0o600) }, []string{"not a rawblockd metadata directory: it is a file", "set meta.path to an empty directory"}},
		"pebble": {false, func(path string) error { return os.MkdirAll(filepath.Join(path, "pebble"), 0o700) }, []string{"not a rawblockd metadata directory", "set meta.path to an empty directory"}},
		"damage": {true, manifest, []string{"metadata is damaged", "begin anew: move the directory away and run rawblockd init DEVICE --wipe"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := shortDir(t)
			c := testConfig(t, dir)
			path := write(t, c)
			if tt.served {
				serve(t, "--config", path).end()
			}
			if err := tt.spoil(c.Meta.Path); err != nil {
				t.Fatal(err)
			}
			before := below(t, dir)
			refused(t, exitFailed, path, append(tt.want, "meta.path: ", c.Meta.Path)...)
			if after := below(t, dir); after != before && !tt.served {
				t.Errorf("a refused start changed\n%s\ninto\n%s", before, after)
			}
		})
	}
}

func TestMetadataHeld(t *testing.T) {
	first := testConfig(t, shortDir(t))
	serve(t, "--config", write(t, first))
	second := testConfig(t, shortDir(t))
	second.Meta.Path = first.Meta.Path
	refused(t, exitFailed, write(t, second), first.Meta.Path, "in use", "change meta.path")
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addr := l.Addr().String()
	c := testConfig(t, shortDir(t))
	c.Listen.HTTP = addr
	refused(t, exitFailed, write(t, c), "listen.http "+addr, "in use by another process", "change listen.http (flag --http)")
	c.Listen.HTTP, c.Listen.Admin = "", addr
	refused(t, exitFailed, write(t, c), "listen.admin "+addr, "change listen.admin (flag --admin)")
	if _, err := os.Lstat(c.Listen.Unix); err == nil {
		t.Error("a refused start left its socket behind")
	}
}
