// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strconv"
	"time"
)

// demoTable prints a row when its step has ended, so its widths are fixed.
type demoTable struct {
	w       io.Writer
	started bool
}

// outcome is what a step did.
type outcome struct {
	keys   int
	bytes  int64
	result string
}

const demoRow = "%-34s %6s %10s %9s %8s  %s\n"

func (t *demoTable) row(step string, o outcome, took time.Duration) {
	if !t.started {
		t.started = true
		fmt.Fprintf(t.w, demoRow, "STEP", "KEYS", "BYTES", "TIME", "MIB/S", "RESULT")
	}
	keys, bytes, speed := "-", "-", "-"
	if o.keys > 0 {
		keys = strconv.Itoa(o.keys)
	}
	if o.bytes > 0 {
		bytes = size(o.bytes)
		speed = fmt.Sprintf("%.0f", float64(o.bytes)/(1<<20)/took.Seconds())
	}
	fmt.Fprintf(t.w, demoRow, step, keys, bytes, fmt.Sprintf("%.2f s", took.Seconds()), speed, o.result)
}
