// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/rawblockd/rawblockd/config"
	"github.com/rawblockd/rawblockd/slab"
)

func (c *cli) inspectVerb() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use: "inspect DEVICE", Short: "Show a device's label, geometry and holder, also while a daemon holds it",
		Args: cobra.ExactArgs(1),
	}
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		r, err := slab.Inspect(args[0])
		switch {
		case errors.Is(err, fs.ErrNotExist):
			err = fmt.Errorf("%w; correct the path (lsblk -o NAME,SIZE,MODEL,SERIAL shows the devices there are)", err)
		case errors.Is(err, fs.ErrPermission):
			err = fmt.Errorf("%w; run it as a user who may read the device, such as root or a member of its group", err)
		case errors.Is(err, slab.ErrNoLabel):
			err = fmt.Errorf("%w; if this is the right device, make a slab of it: rawblockd init %s", err, args[0])
		}
		if r.Geometry.Size == 0 {
			return err
		}
		if asJSON {
			return errors.Join(c.printJSON(inspectJSON(r, err == nil)), err)
		}
		return errors.Join(c.printReport(r, err == nil), err)
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

func (c *cli) printReport(r slab.Report, labelled bool) error {
	g, l := r.Geometry, r.Label
	kind := "block device"
	if g.Regular {
		kind = "regular file"
	}
	rows := [][]string{
		{"device", r.Path},
		{"real path", r.RealPath},
		{"kind", kind},
		{"model", firstOf(r.Model, "none")},
		{"serial", firstOf(r.Serial, "none")},
		{"size", fmt.Sprintf("%s (%s bytes)", size(g.Size), count(g.Size))},
		{"block", fmt.Sprintf("%d bytes, memory %d, optimal I/O %d, direct I/O %t", g.Block, g.MemAlign, g.OptimalIO, g.Direct)},
	}
	if labelled {
		rows = append(rows,
			[]string{"name", firstOf(l.Name, "none")},
			[]string{"incarnation", slab.UUID(l.Incarnation)},
			[]string{"created", moment(l.Created)},
			[]string{"slots", fmt.Sprintf("%s of %s, header zone %s, first at %s", count(l.SlotCount), config.Size(l.SlotSize), config.Size(l.HeaderZone), config.Size(l.DataOffset))},
			[]string{"mount", fmt.Sprintf("number %d, epoch %d", l.Mount, l.Epoch)},
			[]string{"holder", l.Holder.String()},
		)
	}
	for _, cp := range r.Copies {
		state := "valid"
		if cp.Err != nil {
			state = cp.Err.Error()
		}
		rows = append(rows, []string{fmt.Sprintf("label at %d", cp.Off), fmt.Sprintf("%s, epoch %d", state, cp.Label.Epoch)})
	}
	return c.table(rows)
}

// inspectJSON is the report with names that scripts can rely on.
func inspectJSON(r slab.Report, labelled bool) map[string]any {
	g, l := r.Geometry, r.Label
	out := map[string]any{
		"device": r.Path, "real_path": r.RealPath, "model": r.Model, "serial": r.Serial, "labelled": labelled,
		"geometry": map[string]any{
			"size": g.Size, "block": g.Block, "mem_align": g.MemAlign, "optimal_io": g.OptimalIO, "regular": g.Regular, "direct": g.Direct,
		},
	}
	if labelled {
		out["label"] = map[string]any{
			"name": l.Name, "incarnation": slab.UUID(l.Incarnation), "created": l.Created, "slot_size": l.SlotSize, "slot_count": l.SlotCount,
			"stride": l.Stride, "header_zone": l.HeaderZone, "data_offset": l.DataOffset, "piece_size": l.PieceSize, "mount": l.Mount, "epoch": l.Epoch,
			"holder": map[string]any{"host": l.Holder.Host, "boot_id": l.Holder.BootID, "pid": l.Holder.PID},
		}
	}
	copies := make([]map[string]any, 0, len(r.Copies))
	for _, cp := range r.Copies {
		m := map[string]any{"offset": cp.Off, "epoch": cp.Label.Epoch, "valid": cp.Err == nil}
		if cp.Err != nil {
			m["error"] = cp.Err.Error()
		}
		copies = append(copies, m)
	}
	out["copies"] = copies
	return out
}
