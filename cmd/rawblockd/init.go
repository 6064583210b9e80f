// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/rawblockd/rawblockd/config"
	"github.com/rawblockd/rawblockd/server"
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
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.SlotSize, o.Size = int64(slotSize.bytes), int64(fileSize.bytes)
		if err := checkInit(cmd, o); err != nil {
			return usagef("init %q: %w", args[0], err)
		}
		if o.Wipe {
			if err := c.announceWipe(cmd.Context(), args[0], !yes); err != nil {
				return err
			}
		}
		l, err := slab.Init(args[0], o)
		if err != nil {
			return err
		}
		if o.Wipe {
			c.auditWipe(args[0], slab.UUID(l.Incarnation))
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
	registered(cmd.RegisterFlagCompletionFunc("slot-size", words("16MiB", "1MiB", "2MiB", "32MiB", "4MiB", "64KiB", "64MiB", "8MiB")))
	return cmd
}

// checkInit refuses flags that are wrong whatever DEVICE is.
func checkInit(cmd *cobra.Command, o slab.InitOptions) error {
	for name, n := range map[string]int64{"slot-size": o.SlotSize, "size": o.Size} {
		if cmd.Flags().Changed(name) && n == 0 {
			return fmt.Errorf("--%s 0: must be more than 0", name)
		}
	}
	if o.Serial != "" && !o.Wipe {
		return errors.New("--serial says which device --wipe may wipe: give --wipe too, or leave --serial out")
	}
	return o.Check()
}

// announceWipe says what will be lost and, if told to, asks; it takes nothing
// but "yes" for a yes.
func (c *cli) announceWipe(ctx context.Context, path string, ask bool) error {
	r, err := slab.Survey(path)
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
	fmt.Fprintln(c.stderr)
	rows := [][2]string{
		{"model", firstOf(r.Model, "none")},
		{"serial", firstOf(r.Serial, "none")},
		{"size", fmt.Sprintf("%s (%s bytes)", size(r.Geometry.Size), count(r.Geometry.Size))},
	}
	for i, what := range contents(r, err) {
		name := ""
		if i == 0 {
			name = "holds"
		}
		rows = append(rows, [2]string{name, what})
	}
	rows = append(rows, [2]string{"last owner", firstOf(r.LastHolder(), "not known: no rawblockd label that can be read")})
	for _, row := range rows {
		fmt.Fprintf(c.stderr, "  %-12s%s\n", row[0], row[1])
	}
	if !ask {
		return nil
	}
	return c.askYes(ctx, fmt.Sprintf("init %q", path))
}

// auditWipe leaves a line like those of the daemon's log for whoever keeps what
// commands say.
func (c *cli) auditWipe(device, incarnation string) {
	who := fmt.Sprintf("uid %d", os.Getuid())
	if u := os.Getenv("SUDO_USER"); u != "" {
		who += " for " + u
	}
	log, _ := newLogger(c.stderr, config.Log{Level: "info", Format: "text"})
	log.Info(server.AuditMessage, "audit", true, "what", "wipe", "who", who, "device", device, "incarnation", incarnation)
}

// contents lists what a survey found, and what kept it from looking further.
func contents(r slab.Report, err error) []string {
	lines := holdings(r, err)
	if len(r.Contents()) == 0 {
		lines = append([]string{"nothing that was found"}, lines...)
	}
	return lines
}

// holdings is contents of which nothing is left for a device that is blank.
func holdings(r slab.Report, err error) []string {
	lines := r.Contents()
	for _, expected := range []error{slab.ErrNoLabel, slab.ErrIncompat, slab.ErrGeometry} {
		if errors.Is(err, expected) && !isJoined(err) {
			return lines // the lines say it
		}
	}
	if err != nil {
		lines = append(lines, "not all could be looked at: "+oneLine(err))
	}
	return lines
}

func isJoined(err error) bool {
	_, ok := err.(interface{ Unwrap() []error })
	return ok
}
