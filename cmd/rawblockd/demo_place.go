// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/config"
	"github.com/rawblockd/rawblockd/ioengine"
)

// demoPlace is everything the demo makes on this machine.
type demoPlace struct {
	dir    string
	device string // what gets the slab: a loop device, or image itself
	image  string
	config string
	log    string
	loop   *loopDevice // nil: none
	noLoop string      // why there is none
}

// metaSpace is what the metadata may need, beyond the slab.
const metaSpace = 192 << 20

// makePlace makes a temporary directory with room for the slab.
func makePlace(parent string, plan demoPlan) (_ *demoPlace, err error) {
	if parent == "" {
		parent = os.TempDir()
	}
	need := plan.slabBytes() + metaSpace
	free, err := freeSpace(parent)
	if err != nil {
		return nil, err
	}
	if free < need {
		return nil, fmt.Errorf("%s has %s free, %s are needed: free %s more, or choose another place with --dir", parent, size(free), size(need), size(need-free))
	}
	dir, err := os.MkdirTemp(parent, "rawblockd-demo-")
	if err != nil {
		return nil, err
	}
	// The daemon wants absolute paths, as every daemon should.
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	p := &demoPlace{
		dir: dir, image: filepath.Join(dir, "slab.img"), config: filepath.Join(dir, "rawblockd.yaml"), log: filepath.Join(dir, "daemon.log"),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.remove())
		}
	}()
	if err := ioengine.Create(p.image, plan.slabBytes()); err != nil {
		return nil, err
	}
	p.device = p.image
	if p.loop, err = attachLoop(p.image); err != nil {
		p.noLoop = err.Error()
	} else {
		p.device = p.loop.path
	}
	return p, p.writeConfig(plan)
}

func freeSpace(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("free space of %q: %w", dir, err)
	}
	return int64(st.Bavail) * st.Bsize, nil
}

func (p *demoPlace) writeConfig(plan demoPlan) error {
	cfg := config.Dev(p.dir)
	cfg.Listen.HTTP, cfg.Listen.Admin = "", "" // no port of this machine is touched
	cfg.Slabs[0].Device, cfg.Slabs[0].SlotSize = p.device, plan.slotSize
	cfg.Meta.MinFree = 64 * config.MiB
	cfg.Limits.StreamBytes = 256 * config.MiB
	if err := cfg.Validate(); err != nil {
		return err
	}
	text, err := cfg.YAML()
	if err != nil {
		return err
	}
	return os.WriteFile(p.config, text, 0o600)
}

func (p *demoPlace) addr() string { return "unix:" + filepath.Join(p.dir, "rawblockd.sock") }

func (p *demoPlace) describe() string {
	if p.loop == nil {
		return fmt.Sprintf("the file %s (no loop device: %s)", p.image, p.noLoop)
	}
	if !p.loop.direct {
		return fmt.Sprintf("%s over %s (buffered: its file system has no direct I/O)", p.device, p.image)
	}
	return fmt.Sprintf("%s with direct I/O over %s", p.device, p.image)
}

func (p *demoPlace) remove() error {
	var err error
	if p.loop != nil {
		err = p.loop.detach()
	}
	return errors.Join(err, os.RemoveAll(p.dir))
}
