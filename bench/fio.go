// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/ioengine"
)

// ErrFio is what fio did not do.
var ErrFio = errors.New("fio")

// fioPatience is how long fio may take to end after it was told to.
const fioPatience = 5 * time.Second

// Fio is the program that figures are held against.
type Fio struct {
	Path    string // of the program
	Version string // as it says itself
}

// FindFio looks for fio.
func FindFio(ctx context.Context) (*Fio, error) {
	path, err := exec.LookPath("fio")
	if err != nil {
		return nil, fmt.Errorf("%w is not installed: install the package fio, or leave --fio out and get figures without ratios", ErrFio)
	}
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s --version: %w", ErrFio, path, err)
	}
	return &Fio{Path: path, Version: strings.TrimSpace(string(out))}, nil
}

// job is one run of fio.
type job struct {
	dir      ioengine.Dir
	mixed    bool // 70 reads to 30 writes instead
	size     int64
	depth    int
	fixed    bool // with buffers registered with the kernel
	area     int64
	filename string
	seed     uint64
}

// String names what is compared with: size×depth.
func (j job) String() string {
	s := fmt.Sprintf("%s×%d", Size(j.size), j.depth)
	if j.fixed {
		s += " fixedbufs"
	}
	return s
}

// args is fio's command line. Offsets are drawn anew each time (norandommap), as ours
// are, and latencies are from submission to completion.
func (j job) args(p Protocol) []string {
	rw := map[ioengine.Dir]string{ioengine.Read: "randread", ioengine.Write: "randwrite"}[j.dir]
	if j.mixed {
		rw = "randrw"
	}
	args := []string{
		"--name=bench", "--filename=" + strings.ReplaceAll(j.filename, ":", `\:`), "--ioengine=io_uring", "--direct=1",
		"--rw=" + rw, "--bs=" + strconv.FormatInt(j.size, 10), "--iodepth=" + strconv.Itoa(j.depth),
		"--offset=0", "--size=" + strconv.FormatInt(j.area-j.area%j.size, 10), "--norandommap=1",
		"--randrepeat=0", "--randseed=" + strconv.FormatUint(j.seed%(1<<31), 10), "--thread=1", "--allow_file_create=0",
		"--time_based=1", "--runtime=" + milliseconds(p.Window), "--ramp_time=" + milliseconds(p.Ramp),
		"--lat_percentiles=1", "--clat_percentiles=0", "--output-format=json+", "--eta=never",
	}
	if j.mixed {
		args = append(args, "--rwmixread=70")
	}
	if j.fixed {
		args = append(args, "--fixedbufs=1")
	}
	return args
}

func milliseconds(d time.Duration) string {
	return strconv.FormatInt(max(d.Milliseconds(), 1), 10) + "ms"
}

// run runs one job. When ctx ends fio is told to end, and has ended when run returns.
func (f *Fio) run(ctx context.Context, j job, p Protocol) (Sample, error) {
	cmd := exec.CommandContext(ctx, f.Path, j.args(p)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGINT) }
	cmd.WaitDelay = fioPatience
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		return Sample{}, context.Cause(ctx)
	}
	if err != nil {
		return Sample{}, fmt.Errorf("%w: %s: %w: %s", ErrFio, j, err, lastWords(stderr.String(), stdout.String()))
	}
	s, err := parseFio(stdout.Bytes())
	if err != nil {
		return Sample{}, fmt.Errorf("%w: %s: %w", ErrFio, j, err)
	}
	return s, nil
}

// lastWords is what a program said of its failure: one line.
func lastWords(texts ...string) string {
	for _, text := range texts {
		for _, line := range strings.Split(text, "\n") {
			if line = strings.TrimSpace(line); line != "" {
				return line
			}
		}
	}
	return "it did not say why"
}
