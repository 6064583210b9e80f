// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/rawblockd/rawblockd/config"
)

// demoPlan is how much the demo moves.
type demoPlan struct {
	keys     int   // in each batch
	big      int64 // payload of the first batch, and of the one that is cut short
	small    int64 // payload of the second; no multiple of a block
	slotSize config.Size
}

// demoSizes are the payloads the daemon is made for: a chunk of 256 tokens of a
// large model, and one of DeepSeek-V3.
func demoSizes() demoPlan {
	return demoPlan{keys: 32, big: 24 << 20, small: 1_124_352, slotSize: 2 * config.MiB}
}

// slabBytes is the size of a slab that holds all batches at once, with the
// largest header zone there is.
func (p demoPlan) slabBytes() int64 {
	const headerZone, ends = 64 << 10, 4 << 20
	slot := int64(p.slotSize)
	slots := int64(p.keys) * (2*((p.big+slot-1)/slot) + (p.small+slot-1)/slot)
	return (slots+16)*(slot+headerZone) + ends
}

func (c *cli) demoVerb() *cobra.Command {
	dir := ""
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run the main job end to end and show what happened",
		Long: "Makes a slab (on a loop device as root, else in a file), serves it from a child process, and through\n" +
			"HTTP stores, crashes with kill -9, verifies, looks up, pins, loads, unpins and removes. Removes all it made.",
		Args: cobra.NoArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return c.demo(cmd.Context(), dir, demoSizes())
	}
	cmd.Flags().StringVar(&dir, "dir", "", "directory to work in (default: that for temporary files)")
	registered(cmd.MarkFlagDirname("dir"))
	return cmd
}

func (c *cli) demo(ctx context.Context, dir string, plan demoPlan) (err error) {
	began := time.Now()
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("demo: find my own binary: %w", err)
	}
	place, err := makePlace(dir, plan)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	d := &demo{plan: plan, place: place, table: demoTable{w: c.stdout}, child: child{binary: binary, place: place}}
	defer func() {
		if err != nil && ctx.Err() == nil {
			c.showLog(place.log)
		}
		if e := errors.Join(d.child.stop(), place.remove()); e != nil {
			err = errors.Join(err, fmt.Errorf("demo: clean up: %w", e))
		}
	}()
	fmt.Fprintf(c.stdout, "slab of %s on %s\n\n", size(plan.slabBytes()), place.describe())
	if err := d.run(ctx); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	_, err = fmt.Fprintf(c.stdout, "\nok in %v: every acknowledged byte came back after kill -9, and what was removed stayed removed\n",
		time.Since(began).Round(100*time.Millisecond))
	return err
}

// logTail is how much of the daemon's log helps after a failure.
const logTail = 4 << 10

func (c *cli) showLog(path string) {
	text, err := os.ReadFile(path)
	if err != nil || len(text) == 0 {
		return
	}
	fmt.Fprintf(c.stderr, "the end of the daemon's log:\n%s", text[max(0, len(text)-logTail):])
}
