// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rawblockd/rawblockd/config"
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
		cfg, err := o.load(changed)
		if err != nil {
			return err
		}
		return c.serve(cmd.Context(), cfg, o, changed("size"))
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

// load reads the configuration and puts the flags over it.
func (o *serveFlags) load(changed func(string) bool) (cfg *config.Config, err error) {
	if o.dev != "" {
		cfg, err = o.devConfig()
	} else {
		cfg, err = loadConfig(o.config)
	}
	if err != nil {
		return nil, err
	}
	if changed("http") {
		cfg.Listen.HTTP = o.http
	}
	if changed("admin") {
		cfg.Listen.Admin = o.admin
	}
	return cfg, cfg.Validate()
}

func (c *cli) serve(ctx context.Context, cfg *config.Config, o serveFlags, sized bool) error {
	log, err := newLogger(c.stderr, cfg.Log)
	if err != nil {
		return usageError{err}
	}
	socket, _ := c.lookupEnv("NOTIFY_SOCKET")
	d := newDaemon(cfg, log, socket)
	prepare, ready := func() error { return nil }, func() {}
	if o.dev != "" {
		prepare = func() error { return prepareDev(cfg, o, sized) }
		ready = func() { c.printDev(d) }
	}
	stop := onHangup(func() {
		log.Warn("SIGHUP: reload is not in this release, nothing was changed; restart the daemon to apply a changed configuration")
	})
	defer stop()
	err = d.run(ctx, prepare, ready)
	if errors.Is(err, errRestart) {
		log.Warn("restarting", "because", err)
		err = becomeNew() // does not return unless it fails
	}
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
