// SPDX-License-Identifier: Apache-2.0

package slab

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rawblockd/rawblockd/ioengine"
)

// InitOptions says what slab to make.
type InitOptions struct {
	SlotSize int64  // 0: DefaultSlotSize
	Name     string // at most 64 bytes, no control characters
	Wipe     bool   // destroy what is on the device
	Serial   string // of the device; needed with Wipe where there is one and the path is no by-id path
	Size     int64  // creates a regular file of that size
}

// Check reports options that are wrong whatever the device is: an ErrOption whose text
// names the option, what was given and what is possible.
func (o InitOptions) Check() error { return o.complete() }

// complete checks the options and fills in the default.
func (o *InitOptions) complete() error {
	if o.SlotSize == 0 {
		o.SlotSize = DefaultSlotSize
	}
	if !slotSizeFits(o.SlotSize) {
		return &optionError{text: fmt.Sprintf("slot size %s: must be 4 KiB to 64 MiB and a multiple of 4 KiB", human(o.SlotSize))}
	}
	if err := checkName(o.Name); err != nil {
		return err
	}
	return o.checkSize()
}

// checkName keeps out of the label what would spoil a terminal, a log or a table.
func checkName(name string) error {
	if len(name) > maxName {
		return &optionError{text: fmt.Sprintf("name %q: is %d bytes long, must be at most %d", name, len(name), maxName)}
	}
	if !printable(name) {
		return &optionError{text: fmt.Sprintf("name %q: must be UTF-8 without control characters", name)}
	}
	return nil
}

// checkSize refuses a size for a new file that no such slab has.
func (o *InitOptions) checkSize() error {
	if o.Size < 0 {
		return &optionError{text: fmt.Sprintf("size %d bytes: must be positive", o.Size)}
	}
	g := ioengine.Geometry{Size: o.Size, Block: block}
	if o.Size == 0 || o.Size >= smallest(o.SlotSize, 0) {
		return nil
	}
	text := "size: too small: " + tooSmall(g, o.SlotSize)
	if slot := fittingSlot(g, o.SlotSize); slot > 0 {
		text += "; slots of " + human(slot) + " would fit: --slot-size " + sizeFlag(slot)
	}
	return &optionError{text: text, cause: ErrTooSmall}
}

// Init makes a slab of a block device or a regular file and returns its label.
//
// It refuses (ErrRefused, nothing is changed) whatever is in use: mounted, swap,
// held (also under another name, such as a file behind a loop device), partitioned,
// attached to a loop device, or open in the process that mounted it last. Unless Wipe is set it also refuses
// whatever holds something: a label of ours, any signature that blkid knows, or
// simply bytes other than zero in the first or last MiB. Each refusal names what
// was found, where, and the command that helps.
func Init(path string, o InitOptions) (Label, error) {
	return hostInit().run(path, o)
}

// initRun is Init with its view of the host, so that tests can give it another.
type initRun struct {
	host host
	open func(path string) (ioengine.Device, error) // exclusively
}

func hostInit() initRun {
	return initRun{host: thisHost(), open: func(path string) (ioengine.Device, error) {
		return ioengine.Open(path, ioengine.OpenOptions{Exclusive: true})
	}}
}

func (in initRun) run(path string, o InitOptions) (Label, error) {
	l, err := in.dispatch(path, &o)
	if err != nil {
		return Label{}, fmt.Errorf("init %q: %w", path, err)
	}
	return l, nil
}

func (in initRun) dispatch(path string, o *InitOptions) (Label, error) {
	if err := o.complete(); err != nil {
		return Label{}, err
	}
	_, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist) && o.Size > 0:
		return in.create(path, o)
	case errors.Is(err, os.ErrNotExist):
		return Label{}, fmt.Errorf("%w; to create a file, run: %s --size 64GiB", err, command(path, o))
	case err != nil:
		return Label{}, err
	case o.Size > 0:
		return Label{}, fmt.Errorf("%w: it exists, and --size is for creating a file; to use it as it is, run: %s", ErrRefused, command(path, o))
	}
	return in.existing(path, o)
}

// create makes the file and removes it again if it does not become a slab.
func (in initRun) create(path string, o *InitOptions) (l Label, err error) {
	if err := ioengine.Create(path, o.Size); err != nil {
		return Label{}, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(path))
		}
	}()
	dev, err := in.open(path)
	if err != nil {
		return Label{}, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	if l, err = InitDevice(dev, *o); err != nil {
		return Label{}, err
	}
	return l, syncDir(filepath.Dir(path))
}

// syncDir makes a new directory entry durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// existing makes a slab of something that is there already.
func (in initRun) existing(path string, o *InitOptions) (l Label, err error) {
	t, err := in.host.target(path)
	if err != nil {
		return Label{}, err
	}
	if err := t.checkSerial(o); err != nil {
		return Label{}, err
	}
	if err := in.host.inUse(t); err != nil {
		return Label{}, err
	}
	dev, err := in.open(t.path)
	if err != nil {
		return Label{}, explainHeld(t.path, err)
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	fits := Label{SlotSize: o.SlotSize}
	if err := layOut(&fits, dev.Geometry()); err != nil {
		return Label{}, adviseSlot(err, path, dev.Geometry(), *o)
	}
	if o.Wipe {
		if err := in.host.servedElsewhere(t, dev); err != nil {
			return Label{}, err
		}
		return in.wipe(t, dev, o)
	}
	if err := in.host.occupied(t, dev, o); err != nil {
		return Label{}, err
	}
	return InitDevice(dev, *o)
}

// adviseSlot adds to ErrTooSmall the command with smaller slots, if any would fit.
func adviseSlot(err error, path string, g ioengine.Geometry, o InitOptions) error {
	slot := fittingSlot(g, o.SlotSize)
	if !errors.Is(err, ErrTooSmall) || slot == 0 {
		return err
	}
	o.SlotSize = slot
	return fmt.Errorf("%w; with slots of %s it would fit, run: %s", err, human(slot), command(path, &o))
}

// initCommand is the command that makes a slab of a device: of the slot size that is
// configured (0: the default), or of the largest that fits.
func initCommand(dev ioengine.Device, slotSize int64) string {
	if slotSize == 0 {
		slotSize = DefaultSlotSize
	}
	if g := dev.Geometry(); !slotSizeFits(slotSize) || g.Size < smallest(slotSize, g.OptimalIO) {
		slotSize = fittingSlot(g, max(slotSize, MinSlotSize))
	}
	return command(dev.Path(), &InitOptions{SlotSize: slotSize})
}

// wipe clears a device and makes sure that nothing is found on it any more before
// it gets its label.
func (in initRun) wipe(t target, dev ioengine.Device, o *InitOptions) (Label, error) {
	l, err := newLabel(dev, o)
	if err != nil {
		return Label{}, err
	}
	return l, withFlock(dev, func() error {
		if err := clearZones(dev); err != nil {
			return err
		}
		what, err := in.host.signature(t.path, dev.Geometry())
		if err != nil {
			return err
		}
		if what != "" {
			return fmt.Errorf("cleared the first and the last MiB, but blkid still finds %s; no label was written; run: wipefs --all %s, and then: %s",
				what, quote(t.path), command(t.given, o))
		}
		return writeLabels(dev, EncodeLabel(&l))
	})
}

// InitDevice is the writing half of Init, without refusals: it clears every place a
// label can be in and then writes the label, flushing in between, so that no crash
// and no later damage brings an older label back.
func InitDevice(dev ioengine.Device, o InitOptions) (Label, error) {
	if err := o.complete(); err != nil {
		return Label{}, err
	}
	l, err := newLabel(dev, &o)
	if err != nil {
		return Label{}, err
	}
	return l, withFlock(dev, func() error {
		if err := clearZones(dev); err != nil {
			return err
		}
		return writeLabels(dev, EncodeLabel(&l))
	})
}

// newLabel lays a slab out. Its epoch is above that of every label found, and above
// those of labels that cannot be found (the device may have had another size):
// epochs begin with the time in milliseconds and grow by one per mount.
func newLabel(dev ioengine.Device, o *InitOptions) (Label, error) {
	now := time.UnixMilli(time.Now().UnixMilli())
	l := Label{SlotSize: o.SlotSize, Name: o.Name, Created: now, Epoch: uint64(max(now.UnixMilli(), 1))}
	if err := layOut(&l, dev.Geometry()); err != nil {
		return Label{}, fmt.Errorf("%s: %w", dev.Path(), err)
	}
	// An unreadable copy is no obstacle: it is about to be overwritten.
	if copies, err := readLabels(dev); err == nil {
		if best, ok := bestLabel(copies); ok {
			l.Epoch = max(l.Epoch, best.Label.Epoch+1)
		}
	}
	if _, err := rand.Read(l.Incarnation[:]); err != nil {
		return Label{}, fmt.Errorf("incarnation: %w", err)
	}
	l.Incarnation[6] = l.Incarnation[6]&0x0f | 0x40 // UUID version 4, RFC 9562
	l.Incarnation[8] = l.Incarnation[8]&0x3f | 0x80
	return l, nil
}
