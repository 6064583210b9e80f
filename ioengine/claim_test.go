// SPDX-License-Identifier: Apache-2.0

package ioengine_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/internal/testdev"
	"github.com/rawblockd/rawblockd/ioengine"
)

// part makes a loop device show only a part of its file.
func part(t *testing.T, loop string, off, size uint64) {
	t.Helper()
	dev, err := os.OpenFile(loop, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	info, err := unix.IoctlLoopGetStatus64(int(dev.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	info.Offset, info.Sizelimit = off, size
	if err := unix.IoctlLoopSetStatus64(int(dev.Fd()), info); err != nil {
		t.Fatal(err)
	}
}

// partition adds a partition to a device, in the kernel's mind only.
func partition(t *testing.T, dev string, number, firstSector, sectors int) string {
	t.Helper()
	add, err := exec.LookPath("addpart")
	if err != nil {
		t.Skip("no addpart here")
	}
	n := fmt.Sprint(number)
	if out, err := exec.Command(add, dev, n, fmt.Sprint(firstSector), fmt.Sprint(sectors)).CombinedOutput(); err != nil {
		t.Skipf("addpart does not work here: %v: %s", err, out)
	}
	t.Cleanup(func() { // a partition outlives its loop device
		if out, err := exec.Command("delpart", dev, n).CombinedOutput(); err != nil {
			t.Errorf("delpart %s %s: %v: %s", dev, n, err, out)
		}
	})
	return dev + "p" + n
}

// mapped makes a device mapper device of a part of another.
func mapped(t *testing.T, dev string, firstSector, sectors int) string {
	t.Helper()
	name := fmt.Sprintf("rbtest-%d-%s-%d", os.Getpid(), filepath.Base(dev), firstSector)
	table := fmt.Sprintf("0 %d linear %s %d", sectors, dev, firstSector)
	if out, err := exec.Command("dmsetup", "create", name, "--table", table).CombinedOutput(); err != nil {
		t.Skipf("dmsetup does not work here: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("dmsetup", "remove", name).Run() })
	return "/dev/mapper/" + name
}

// openHeld opens what must be held, and says by what.
func openHeld(t *testing.T, path string) *ioengine.HeldError {
	t.Helper()
	f, err := ioengine.Open(path, ioengine.OpenOptions{Exclusive: true})
	if err == nil {
		_ = f.Close() // or it would keep the partitions
	}
	if !errors.Is(err, ioengine.ErrHeld) {
		t.Fatalf("%s: got %v, want ErrHeld", path, err)
	}
	held := &ioengine.HeldError{}
	errors.As(err, &held)
	return held
}

// names makes two names for the same bytes.
type names func(t *testing.T) (a, b string)

func sameBytes() map[string]names {
	return map[string]names{
		"a file and its loop device": func(t *testing.T) (string, string) {
			file := testdev.File(t, devSize)
			return file, testdev.LoopOver(t, file, 512)
		},
		"a file and a partition of its loop device": func(t *testing.T) (string, string) {
			file := testdev.File(t, devSize)
			return file, partition(t, testdev.LoopOver(t, file, 512), 1, 2048, 8192)
		},
		"two loop devices": func(t *testing.T) (string, string) {
			file := testdev.File(t, devSize)
			return testdev.LoopOver(t, file, 512), testdev.LoopOver(t, file, 4096)
		},
		"loop devices that overlap": func(t *testing.T) (string, string) {
			file := testdev.File(t, devSize)
			a, b := testdev.LoopOver(t, file, 512), testdev.LoopOver(t, file, 512)
			part(t, a, 0, 5<<20)
			part(t, b, 4<<20, 4<<20)
			return a, b
		},
		"a loop device and a partition of another": func(t *testing.T) (string, string) {
			file := testdev.File(t, devSize)
			return testdev.LoopOver(t, file, 512), partition(t, testdev.LoopOver(t, file, 512), 1, 2048, 8192)
		},
		"a loop device and one over it": func(t *testing.T) (string, string) {
			dev := testdev.Loop(t, devSize, 512)
			return dev, testdev.LoopOver(t, dev, 512)
		},
		"a file and a loop device over its loop device": func(t *testing.T) (string, string) {
			file := testdev.File(t, devSize)
			return file, testdev.LoopOver(t, testdev.LoopOver(t, file, 512), 512)
		},
		"a disk and a loop device over its partition": func(t *testing.T) (string, string) {
			dev := testdev.Loop(t, devSize, 512)
			return dev, testdev.LoopOver(t, partition(t, dev, 1, 2048, 8192), 512)
		},
		"a file and a volume on its loop device": func(t *testing.T) (string, string) {
			file := testdev.File(t, devSize)
			return file, mapped(t, testdev.LoopOver(t, file, 512), 2048, 8192)
		},
		"a loop device and a volume on another": func(t *testing.T) (string, string) {
			file := testdev.File(t, devSize)
			other := testdev.LoopOver(t, file, 512)
			return mapped(t, testdev.LoopOver(t, file, 512), 2048, 8192), other
		},
		"another link of a file": func(t *testing.T) (string, string) {
			file := testdev.File(t, devSize)
			link := filepath.Join(filepath.Dir(file), "link")
			if err := os.Link(file, link); err != nil {
				t.Skipf("no hard links here: %v", err)
			}
			return link, testdev.LoopOver(t, file, 512)
		},
		"another link of a file whose own name is gone": func(t *testing.T) (string, string) {
			file := testdev.File(t, devSize)
			link := filepath.Join(filepath.Dir(file), "link")
			if err := os.Link(file, link); err != nil {
				t.Skipf("no hard links here: %v", err)
			}
			dev := testdev.LoopOver(t, file, 512)
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			return link, dev
		},
	}
}

// TestOpenKnowsOtherNames: who has bytes under one name keeps others from having
// them under another, whichever comes first.
func TestOpenKnowsOtherNames(t *testing.T) {
	for name, make := range sameBytes() {
		for _, turned := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, turned %t", name, turned), func(t *testing.T) {
				a, b := make(t)
				if turned {
					a, b = b, a
				}
				synctest.Test(t, func(t *testing.T) { // the retries wait in fake time
					first := mustOpen(t, a, ioengine.OpenOptions{Exclusive: true})
					openHeld(t, b)
					if err := mustOpen(t, b, ioengine.OpenOptions{ReadOnly: true}).Close(); err != nil {
						t.Errorf("looking: %v", err)
					}
					if err := first.Close(); err != nil {
						t.Fatal(err)
					}
					mustOpen(t, b, ioengine.OpenOptions{Exclusive: true})
				})
			})
		}
	}
}

// TestOpenNamesWhatIsHeld: fuser on the loop device would find nobody.
func TestOpenNamesWhatIsHeld(t *testing.T) {
	file := testdev.File(t, devSize)
	dev := testdev.LoopOver(t, file, 512)
	synctest.Test(t, func(t *testing.T) {
		mustOpen(t, file, ioengine.OpenOptions{Exclusive: true})
		if held := openHeld(t, dev); held.Path != file {
			t.Errorf("got %v, want a HeldError that names %s", held, file)
		}
	})
}

// TestOpenRefusesWhatAClaimedLoopShows: somebody who claims a loop device, to mount
// it for instance, knows nothing of locks on what it shows.
func TestOpenRefusesWhatAClaimedLoopShows(t *testing.T) {
	for name, make := range map[string]func(t *testing.T) (claimed string, refused []string){
		"file": func(t *testing.T) (string, []string) {
			file := testdev.File(t, devSize)
			return testdev.LoopOver(t, file, 512), []string{file, testdev.LoopOver(t, file, 512)}
		},
		"loop device": func(t *testing.T) (string, []string) {
			file := testdev.File(t, devSize)
			dev := testdev.LoopOver(t, file, 512)
			return testdev.LoopOver(t, dev, 512), []string{file, dev}
		},
		"partition": func(t *testing.T) (string, []string) {
			dev := testdev.Loop(t, devSize, 512)
			p := partition(t, dev, 1, 2048, 8192)
			return testdev.LoopOver(t, p, 512), []string{dev, p}
		},
		"disk": func(t *testing.T) (string, []string) {
			dev := testdev.Loop(t, devSize, 512)
			return testdev.LoopOver(t, dev, 512), []string{dev, partition(t, dev, 1, 2048, 8192)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			claimed, paths := make(t)
			claim, err := os.OpenFile(claimed, os.O_RDWR|unix.O_EXCL, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer claim.Close()
			synctest.Test(t, func(t *testing.T) {
				for _, path := range paths {
					if held := openHeld(t, path); held.Path != claimed {
						t.Errorf("%s: got %v, want that %s is held", path, held, claimed)
					}
				}
				if err := claim.Close(); err != nil {
					t.Fatal(err)
				}
				for _, path := range paths { // attached alone is no claim
					if err := mustOpen(t, path, ioengine.OpenOptions{Exclusive: true}).Close(); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// TestOpenAllowsNeighbours: parts of one file that do not meet may all be in use.
func TestOpenAllowsNeighbours(t *testing.T) {
	file := testdev.File(t, devSize)
	for name, make := range map[string]names{
		"partitions": func(t *testing.T) (string, string) {
			dev := testdev.Loop(t, devSize, 512)
			return partition(t, dev, 1, 2048, 2048), partition(t, dev, 2, 4096, 2048)
		},
		"parts of a file": func(t *testing.T) (string, string) {
			a, b := testdev.LoopOver(t, file, 512), testdev.LoopOver(t, file, 512)
			part(t, a, 0, 4<<20)
			part(t, b, 4<<20, 4<<20)
			return a, b
		},
		"volumes": func(t *testing.T) (string, string) {
			dev := testdev.Loop(t, devSize, 512)
			return mapped(t, dev, 2048, 2048), mapped(t, dev, 4096, 2048)
		},
		"a loop device over one partition, and the other": func(t *testing.T) (string, string) {
			dev := testdev.Loop(t, devSize, 512)
			return testdev.LoopOver(t, partition(t, dev, 1, 2048, 2048), 512), partition(t, dev, 2, 4096, 2048)
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := make(t)
			synctest.Test(t, func(t *testing.T) {
				mustOpen(t, a, ioengine.OpenOptions{Exclusive: true})
				mustOpen(t, b, ioengine.OpenOptions{Exclusive: true})
			})
		})
	}
}

func TestLoopsOver(t *testing.T) {
	file := testdev.File(t, devSize)
	if got, err := ioengine.LoopsOver(file); len(got) > 0 || err != nil {
		t.Errorf("got %v, %v, want none", got, err)
	}
	dev := testdev.LoopOver(t, file, 512)
	nested := testdev.LoopOver(t, dev, 512)
	for path, want := range map[string]string{file: dev, dev: nested} {
		if got, err := ioengine.LoopsOver(path); !slices.Equal(got, []string{want}) || err != nil {
			t.Errorf("%s: got %v, %v, want %s", path, got, err, want)
		}
	}
	if _, err := ioengine.LoopsOver(file + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want ErrNotExist", err)
	}
}
