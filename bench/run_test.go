// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rawblockd/rawblockd/internal/testdev"
	"github.com/rawblockd/rawblockd/ioengine"
)

// fakeFio is a program that ends at once, as fio does where the kernel refuses it a ring.
func fakeFio(t *testing.T, script string) *Fio {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fio")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return &Fio{Path: path, startup: map[job]time.Duration{}}
}

// What cannot be measured with is found before the device is overwritten.
func TestRunTriesBeforeItWrites(t *testing.T) {
	device := testdev.Loop(t, 8<<20, 512)
	want := bytes.Repeat([]byte("precious"), 512)
	if err := os.WriteFile(device, want, 0); err != nil {
		t.Fatal(err)
	}
	noEngine := func(*ioengine.File, int, [][]byte) (ioengine.Engine, string, error) {
		return nil, "", errors.New("no ring is to be had")
	}
	for says, spoil := range map[string]func(p *Plan){
		"engine late: no ring is to be had": func(p *Plan) {
			p.Names, p.Engines["late"] = append(p.Names, "late"), noEngine
		},
		"fio has no io_uring here: leave --fio out": func(p *Plan) {
			p.Fio = fakeFio(t, "echo 'engine init: Operation not permitted' >&2; exit 1\n")
		},
		"fio cannot register buffers here: leave fio-fixedbufs out": func(p *Plan) {
			p.Names, p.Fio = append(p.Names, FioFixed), fakeFio(t, "case \"$*\" in *--fixedbufs=1*) exit 1;; esac\n")
		},
	} {
		p := goodPlan()
		p.Device, p.Fill, p.Pairs = device, true, 1
		p.Filling = func(int64, int64) { t.Errorf("%s: it was overwritten before", says) }
		spoil(&p)
		r, err := Run(t.Context(), p)
		if err == nil || !strings.Contains(err.Error(), says) || len(r.Rows) > 0 {
			t.Errorf("%d rows, %v; want none, and %q", len(r.Rows), err, says)
		}
		if b, err := json.Marshal(r); err != nil || !bytes.Contains(b, []byte(`"rows":[]`)) {
			t.Errorf("the report is %s (%v), want rows that are no null", b, err)
		}
		got := make([]byte, len(want))
		f, err := os.Open(device)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: the device was overwritten (%v)", says, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}
