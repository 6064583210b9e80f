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

	startup map[job]time.Duration // CPU that jobs take before and after their I/O
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
	return &Fio{Path: path, Version: strings.TrimSpace(string(out)), startup: map[job]time.Duration{}}, nil
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

// args is fio's command line for a window.
func (j job) args(p Protocol) []string {
	return append(j.common(), "--time_based=1", "--runtime="+milliseconds(p.Window), "--ramp_time="+milliseconds(p.Ramp))
}

// once is fio's command line for a single op.
func (j job) once() []string {
	return append(j.common(), "--io_size="+strconv.FormatInt(j.size, 10))
}

// common is fio's command line but for how long. Offsets are drawn anew each time (norandommap), as ours
// are, and latencies are from submission to completion.
func (j job) common() []string {
	rw := map[ioengine.Dir]string{ioengine.Read: "randread", ioengine.Write: "randwrite"}[j.dir]
	if j.mixed {
		rw = "randrw"
	}
	args := []string{
		"--name=bench", "--filename=" + strings.ReplaceAll(j.filename, ":", `\:`), "--ioengine=io_uring", "--direct=1",
		"--rw=" + rw, "--bs=" + strconv.FormatInt(j.size, 10), "--iodepth=" + strconv.Itoa(j.depth),
		"--offset=0", "--size=" + strconv.FormatInt(j.area-j.area%j.size, 10), "--norandommap=1",
		"--randrepeat=0", "--randseed=" + strconv.FormatUint(j.seed%(1<<31), 10), "--thread=1", "--allow_file_create=0",
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
//
// fio's CPU is that of its job's thread as it says itself; but of ops above 1 MiB, which
// the kernel hands to a thread of its own in the process, that is a tenth. Of them it is
// the process's, less what the same job takes for a single op.
func (f *Fio) run(ctx context.Context, j job, p Protocol) (Sample, error) {
	out, cpu, err := f.command(ctx, j, j.args(p))
	if err != nil {
		return Sample{}, err
	}
	s, err := parseFio(out)
	if err != nil {
		return Sample{}, fmt.Errorf("%w: %s: %w", ErrFio, j, err)
	}
	if j.size <= ioengine.PieceSize {
		return s, nil
	}
	startup, err := f.startupOf(ctx, j)
	if err != nil {
		return Sample{}, err
	}
	s.CPU = time.Duration(float64(max(0, cpu-startup)) * float64(s.Took) / float64(s.Took+p.Ramp))
	return s, nil
}

// tryOut runs a single op of a job; without says what it means if that fails.
func (f *Fio) tryOut(ctx context.Context, j job, without string) error {
	_, _, err := f.command(ctx, j, j.once())
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("fio %s (%w)", without, err)
	}
	return err
}

// startupOf returns what fio's process takes for a job of one op.
func (f *Fio) startupOf(ctx context.Context, j job) (time.Duration, error) {
	key := j
	key.seed = 0
	if cpu, ok := f.startup[key]; ok {
		return cpu, nil
	}
	_, cpu, err := f.command(ctx, j, j.once())
	if err == nil {
		f.startup[key] = cpu
	}
	return cpu, err
}

// command runs fio and returns what it wrote and the CPU time that it took.
func (f *Fio) command(ctx context.Context, j job, args []string) ([]byte, time.Duration, error) {
	cmd := exec.CommandContext(ctx, f.Path, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGINT) }
	cmd.WaitDelay = fioPatience
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		return nil, 0, context.Cause(ctx)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %s: %w: %s", ErrFio, j, err, lastWords(stderr.String(), stdout.String()))
	}
	return stdout.Bytes(), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
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
