// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// serveFlags are the flags of serve.
type serveFlags struct {
	config, dev, http, admin string
	size                     sizeFlag
}

func (c *cli) serveVerb() *cobra.Command {
	o := serveFlags{size: sizeFlag{devSize}}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon",
		Long: "Run the daemon until SIGTERM or SIGINT; a second signal does not wait for work under way.\n" +
			"--dev DIR makes a file-backed slab and metadata in DIR on first use and listens on a socket there and on loopback only.",
		Args: cobra.NoArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		changed := cmd.Flags().Changed
		if o.config != "" && o.dev != "" {
			return usagef("--config and --dev exclude each other: --dev brings its own configuration")
		}
		if changed("size") && o.dev == "" {
			return usagef("--size is for --dev DIR; a device has its size")
		}
		load := func() (setup, error) { return o.load(changed) }
		s, err := load()
		if err != nil {
			return err
		}
		return c.serve(cmd.Context(), s, load, o, changed("size"))
	}
	f := cmd.Flags()
	f.StringVar(&o.config, "config", "", "configuration file (default "+defaultConfig+")")
	f.StringVar(&o.dev, "dev", "", "directory to keep everything in, for trying out")
	f.StringVar(&o.http, "http", "", "host:port instead of listen.http (empty: off)")
	f.StringVar(&o.admin, "admin", "", "host:port instead of listen.admin (empty: off)")
	f.Var(&o.size, "size", "size of the slab that --dev makes on first use")
	registered(cmd.MarkFlagFilename("config", "yaml", "yml"))
	registered(cmd.MarkFlagDirname("dev"))
	return cmd
}

// load reads the configuration and the files that it names, and puts the flags
// over it.
func (o *serveFlags) load(changed func(string) bool) (s setup, err error) {
	s.secrets = &secrets{}
	if o.dev != "" {
		s.cfg, err = o.devConfig(s.secrets.read)
	} else {
		s.cfg, _, err = loadSources(o.config, s.secrets.read)
	}
	if err != nil {
		return setup{}, err
	}
	cfg := s.cfg
	if changed("http") {
		cfg.Listen.HTTP = o.http
	}
	if changed("admin") {
		cfg.Listen.Admin = o.admin
	}
	return s, cfg.Validate()
}

func (c *cli) serve(ctx context.Context, s setup, load func() (setup, error), o serveFlags, sized bool) error {
	cfg := s.cfg
	log, level := newLogger(c.stderr, cfg.Log)
	socket, _ := c.lookupEnv("NOTIFY_SOCKET")
	d := newDaemon(cfg, log, socket)
	d.secrets, d.load, d.level = s.secrets, load, level
	prepare, ready := func() error { return nil }, func() {}
	if o.dev != "" {
		prepare = func() error { return prepareDev(cfg, o, sized) }
		ready = func() { c.printDev(d) }
	}
	stop := onHangup(d.hangup)
	defer stop()
	err := d.run(ctx, prepare, ready)
	if errors.Is(err, errRestart) {
		log.Warn("restarting", "because", err)
		err = becomeNew() // does not return unless it fails
	}
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
