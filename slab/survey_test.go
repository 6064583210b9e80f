// SPDX-License-Identifier: Apache-2.0

package slab

import (
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/rawblockd/rawblockd/internal/simdev"
	"github.com/rawblockd/rawblockd/internal/testdev"
)

func TestSurvey(t *testing.T) {
	if findProgram("blkid") == "" {
		t.Skip("no blkid here")
	}
	targets(t, func(t *testing.T, path string) {
		r, err := Survey(path)
		if !errors.Is(err, ErrNoLabel) || len(r.Contents()) > 0 || r.LastHolder() != "" || r.Geometry.Size != testSize {
			t.Errorf("zeros: got %+v, %v: %q", r, err, r.Contents())
		}
		put(t, path, 4097, []byte{0x5a})
		r, err = Survey(path)
		if want := []string{"something unknown: the first MiB is not all zero (0x5a at offset 4097)"}; !errors.Is(err, ErrNoLabel) || !slices.Equal(r.Contents(), want) {
			t.Errorf("bytes: got %q, %v, want %q", r.Contents(), err, want)
		}
		program(t, "mkfs.ext4", "-q", "-F", "-L", `my d"ata`, path)
		r, err = Survey(path)
		if want := []string{`ext4 "my d\"ata"`}; !errors.Is(err, ErrNoLabel) || !slices.Equal(r.Contents(), want) || !slices.Equal(r.Signatures, want) {
			t.Errorf("ext4: got %q, %v, want %q", r.Contents(), err, want)
		}
		wipes(t, path, InitOptions{Name: "fast0"})
		r, err = Survey(path)
		if got := r.Contents(); err != nil || len(got) != 1 || !strings.HasPrefix(got[0], "rawblockd slab: name fast0, incarnation "+UUID(r.Label.Incarnation)) {
			t.Errorf("slab: got %q, %v", got, err)
		}
		if got := r.LastHolder(); got != "nobody yet" {
			t.Errorf("last holder: got %q", got)
		}
		// A label and a file system together, and a damaged label alone.
		put(t, path, dataOffset/2, make([]byte, LabelSize))
		program(t, "mkfs.ext4", "-q", "-F", path)
		if r, _ = Survey(path); len(r.Contents()) < 1 || !slices.Contains(r.Contents(), "ext4") {
			t.Errorf("ext4 over a slab: got %q", r.Contents())
		}
	})
	if _, err := Survey("/does/not/exist"); err == nil {
		t.Error("no error for a path that is not there")
	}
}

func TestSurveyPartitions(t *testing.T) {
	dev := testdev.Loop(t, 16*mib, 512)
	program(t, "addpart", dev, "1", "2048", "8192")
	defer func() { _ = exec.Command(findProgram("delpart"), dev, "1").Run() }()
	program(t, "addpart", dev, "2", "16384", "2048")
	defer func() { _ = exec.Command(findProgram("delpart"), dev, "2").Run() }()
	program(t, "mkswap", "-L", "spare", dev+"p1")
	r, err := Survey(dev)
	want := []string{
		"partition " + dev + `p1 of 4 MiB: swap "spare"`,
		"partition " + dev + "p2 of 1 MiB: nothing that blkid knows",
	}
	if !errors.Is(err, ErrNoLabel) || !slices.Equal(r.Contents(), want) {
		t.Errorf("got %q, %v, want %q", r.Contents(), err, want)
	}
}

func TestSurveyWords(t *testing.T) {
	for want, out := range map[string]string{
		`ext4 "a b"`:                   "DEVNAME=/dev/x\nLABEL=a\\ b\nUUID=1\nTYPE=ext4\n",
		"gpt partition table":          "PTUUID=1\nPTTYPE=gpt\n",
		"vfat and dos partition table": "TYPE=vfat\nPTTYPE=dos\n",
		"UUID=7":                       "UUID=7\n",
		contradiction:                  "",
		`ext4 "\x1b[2J"`:               "LABEL=\x1b[2J\nTYPE=ext4\n",
	} {
		h := host{blkid: func(args ...string) (string, int, error) {
			switch {
			case len(args) > 4:
				return "", blkidNothing, nil
			case out == "":
				return "", blkidAmbiguous, nil
			}
			return out, blkidFound, nil
		}}
		found, err := h.signatures("/dev/x", simdev.New(simdev.Options{Size: 8 * mib}).Geometry().Size)
		if err != nil || len(found) != 1 || found[0].words() != want {
			t.Errorf("got %v, %v, want %s", found, err, want)
		}
	}
}

// TestSurveyWithoutBlkid keeps what it could find out.
func TestSurveyWithoutBlkid(t *testing.T) {
	r := Report{RealPath: testdev.File(t, testSize)}
	r.Geometry.Size = testSize
	put(t, r.RealPath, 0, []byte{1})
	h := thisHost()
	h.blkid = func(...string) (string, int, error) { return "", 0, errors.New("broken") }
	if err := h.survey(&r); err == nil || !strings.Contains(err.Error(), "broken") || r.NotZero == "" {
		t.Errorf("got %+v, %v", r, err)
	}
}
