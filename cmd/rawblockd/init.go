// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rawblockd/rawblockd/config"
	"github.com/rawblockd/rawblockd/slab"
)

func (c *cli) initVerb() *cobra.Command {
	var o slab.InitOptions
	slotSize, fileSize := sizeFlag{2 * config.MiB}, sizeFlag{}
	yes := false
	cmd := &cobra.Command{
		Use:   "init DEVICE",
		Short: "Make a slab of a block device or a file",
		Long: "Make a slab of a block device, a partition or a regular file. Refuses whatever is in use,\n" +
			"and whatever holds anything unless --wipe is given. Only DEVICE is written.",
		Args: cobra.ExactArgs(1),
	}
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		o.SlotSize, o.Size = int64(slotSize.bytes), int64(fileSize.bytes)
		if o.Serial != "" && !o.Wipe {
			return usagef("--serial says which device --wipe may wipe: give --wipe too, or leave --serial out")
		}
		if o.Wipe && !yes {
			if err := c.confirmWipe(args[0]); err != nil {
				return err
			}
		}
		l, err := slab.Init(args[0], o)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(c.stdout, "%s is a slab now: incarnation %s, %s slots of %s\n",
			args[0], slab.UUID(l.Incarnation), count(l.SlotCount), config.Size(l.SlotSize))
		return err
	}
	f := cmd.Flags()
	f.Var(&slotSize, "slot-size", "unit of allocation, 4KiB to 64MiB; for good")
	f.StringVar(&o.Name, "name", "", "name for people, at most 64 bytes")
	f.Var(&fileSize, "size", "create DEVICE as a regular file of this size")
	f.BoolVar(&o.Wipe, "wipe", false, "destroy what is on the device")
	f.StringVar(&o.Serial, "serial", "", "serial of the device to wipe; needed where it has one and DEVICE is no by-id path")
	f.BoolVar(&yes, "yes", false, "do not ask before --wipe")
	return cmd
}

// confirmWipe says what would be lost and takes nothing but "yes" for a yes.
func (c *cli) confirmWipe(path string) error {
	r, err := slab.Inspect(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // there is nothing to lose; init says the rest
	}
	if r.RealPath == "" || r.Geometry.Size == 0 {
		return err
	}
	fmt.Fprintf(c.stderr, "About to destroy all data on %s", path)
	if r.RealPath != path {
		fmt.Fprintf(c.stderr, " (%s)", r.RealPath)
	}
	fmt.Fprintf(c.stderr, "\n  size        %s (%s bytes)\n  model       %s\n  serial      %s\n  last owner  %s\nType yes to go on: ",
		size(r.Geometry.Size), count(r.Geometry.Size), firstOf(r.Model, "none"), firstOf(r.Serial, "none"), lastOwner(r, err))
	line, _ := bufio.NewReader(c.stdin).ReadString('\n') // the end of the input is no yes
	if strings.TrimSpace(line) != "yes" {
		return fmt.Errorf("init %q: not confirmed, nothing was changed; answer yes, or give --yes", path)
	}
	return nil
}

func lastOwner(r slab.Report, err error) string {
	switch {
	case err == nil:
		return fmt.Sprintf("rawblockd slab %q, incarnation %s, mounted %d times, last by %s",
			r.Label.Name, slab.UUID(r.Label.Incarnation), r.Label.Mount, r.Label.Holder)
	case errors.Is(err, slab.ErrNoLabel):
		return "not known: no rawblockd label"
	}
	return err.Error()
}
