// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/config"
	"github.com/rawblockd/rawblockd/ioengine"
)

// Verdicts of a check. A warning is what the daemon serves with, though worse
// than it could, such as a slab without its device beside others; a failure keeps it
// from serving, or ends it under load.
const (
	verdictOK   = "ok"
	verdictWarn = "warn"
	verdictFail = "fail"
)

// finding is what one check found.
type finding struct {
	Check   string `json:"check"`
	Slab    string `json:"slab,omitempty"`
	Verdict string `json:"verdict"`
	Detail  string `json:"detail"`
	Remedy  string `json:"remedy,omitempty"` // what to do
}

// doctorReport is what doctor --json prints.
type doctorReport struct {
	Fit      bool      `json:"fit"` // no failure
	Config   string    `json:"config"`
	Warnings int       `json:"warnings"`
	Failures int       `json:"failures"`
	Checks   []finding `json:"checks"`
}

// doctor looks at a host for a configuration. It writes nothing anywhere. Where
// it looks is in fields, so that tests can show it another host.
type doctor struct {
	cfg        *config.Config
	proc, sys  string
	probeUring func(depth int) error
	rlimit     func(resource int) (unix.Rlimit, error)

	own     *ownDaemon // the daemon that serves this configuration; nil: none answers
	slots   int64      // of all slabs
	mounted []string   // slabs that have been served before
	lost    []lostSlab // whose devices are away, or no slabs any more
	found   []finding
}

func newDoctor(cfg *config.Config) *doctor {
	return &doctor{cfg: cfg, proc: "/proc", sys: "/sys", probeUring: ioengine.ProbeUring, rlimit: func(resource int) (unix.Rlimit, error) {
		var l unix.Rlimit
		return l, unix.Getrlimit(resource, &l)
	}}
}

// note records what a check found. A remedy goes with every warning and failure.
func (d *doctor) note(verdict, check, remedy, format string, args ...any) {
	d.found = append(d.found, finding{Check: check, Verdict: verdict, Detail: fmt.Sprintf(format, args...), Remedy: remedy})
}

func (d *doctor) ok(check, format string, args ...any) { d.note(verdictOK, check, "", format, args...) }

func (d *doctor) warn(check, remedy, format string, args ...any) {
	d.note(verdictWarn, check, remedy, format, args...)
}

func (d *doctor) fail(check, remedy, format string, args ...any) {
	d.note(verdictFail, check, remedy, format, args...)
}

// of marks what do records as about one slab.
func (d *doctor) of(slab string, do func()) {
	from := len(d.found)
	do()
	for i := from; i < len(d.found); i++ {
		d.found[i].Slab = slab
	}
}

// run makes every check. The slabs come first: what they hold counts later on.
func (d *doctor) run(ctx context.Context) {
	d.findOwn(ctx)
	d.checkSlabs()
	d.checkUring()
	d.checkMemlock()
	d.checkFiles()
	d.checkMemory()
	d.checkLargePages()
	d.checkSHM()
	d.checkMeta()
	d.checkSocket()
	d.checkSecrets()
	d.checkPorts(ctx)
}

func (d *doctor) report(source string) doctorReport {
	r := doctorReport{Config: source, Checks: d.found}
	for _, f := range d.found {
		switch f.Verdict {
		case verdictWarn:
			r.Warnings++
		case verdictFail:
			r.Failures++
		}
	}
	r.Fit = r.Failures == 0
	return r
}

func (c *cli) doctorVerb() *cobra.Command {
	path, asJSON := "", false
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say whether this host is fit for a configuration, and what to do where it is not",
		Long: "Look at devices, io_uring, limits, memory, space, permissions and ports. Each line is ok, warn (it serves, but\n" +
			"worse than it could) or fail (it does not serve, or ends under load), with what to do. Writes\n" +
			"nothing, and can run beside the daemon. Run it as the daemon's user and under its limits: they are what it looks at.\n" +
			"Exits with 0 also where there are warnings, with 1 after a failure.",
		Args: cobra.NoArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, source, err := doctorConfig(path)
		if err != nil {
			return err
		}
		d := newDoctor(cfg)
		d.noteConfig(source)
		d.run(cmd.Context())
		if err := cmd.Context().Err(); err != nil {
			return err
		}
		return c.printDoctor(d.report(source), asJSON)
	}
	cmd.Flags().StringVar(&path, "config", "", "configuration file (default "+defaultConfig+")")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	registered(cmd.MarkFlagFilename("config", "yaml", "yml"))
	return cmd
}

// doctorConfig returns the configuration to look at the host for and where it
// is from. A host without any is looked at for the defaults, without slabs.
func doctorConfig(path string) (*config.Config, string, error) {
	if path == "" {
		_, err := os.Stat(defaultConfig)
		switch {
		case err == nil:
			path = defaultConfig
		case errors.Is(err, fs.ErrNotExist):
			cfg, _, err := config.OverlaySources(config.Default())
			var all *config.Error
			if errors.As(err, &all) && cfg != nil && len(cfg.Slabs) == 0 && len(all.Faults) == 1 {
				return cfg, "", nil // the one fault is that there are none
			}
			if err != nil {
				return nil, "", usageError{err}
			}
			return cfg, "environment", nil
		}
	}
	cfg, err := loadConfig(path)
	return cfg, path, err
}

func (d *doctor) noteConfig(source string) {
	me := fmt.Sprintf("looked at as uid %d", os.Geteuid())
	if source == "" {
		d.warn("configuration", "name a file with --config, or set $RAWBLOCKD_SLABS", "there is no %s: these are the defaults, without slabs; %s", defaultConfig, me)
		return
	}
	for _, w := range d.cfg.Warnings() {
		what, remedy, _ := strings.Cut(w, ": set ")
		d.warn("configuration", firstOf(strings.TrimSpace("set "+remedy), "see docs/configuration.md"), "%s", what)
	}
	d.ok("configuration", "%s: %d slabs, %d namespaces; %s", source, len(d.cfg.Slabs), len(d.cfg.Namespaces), me)
}

func (c *cli) printDoctor(r doctorReport, asJSON bool) error {
	var err error
	if asJSON {
		err = c.printJSON(r)
	} else {
		err = c.printFindings(r)
	}
	if err == nil && r.Failures > 0 {
		err = fmt.Errorf("doctor: %d of %d checks failed, see above what to do", r.Failures, len(r.Checks))
	}
	return err
}

func (c *cli) printFindings(r doctorReport) error {
	rows := make([][]string, 0, len(r.Checks))
	for _, f := range r.Checks {
		what, detail := f.Check, f.Detail
		if f.Slab != "" {
			what = "slab " + f.Slab + ": " + what
		}
		if f.Remedy != "" {
			detail += "; to do: " + f.Remedy
		}
		rows = append(rows, []string{f.Verdict, what, oneLine(errors.New(detail))})
	}
	if err := c.table(rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(c.stdout, "%d checks: %d warnings, %d failures\n", len(r.Checks), r.Warnings, r.Failures)
	return err
}
