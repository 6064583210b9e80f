// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rawblockd/rawblockd/config"
)

const defaultConfig = "/etc/rawblockd/rawblockd.yaml"

// loadConfig reads the file at path. Without a path it is the default file, and
// where that is missing the environment alone.
func loadConfig(path string) (*config.Config, error) {
	cfg, _, err := loadSources(path)
	return cfg, err
}

// loadSources is loadConfig, and says where each value comes from.
func loadSources(path string, more ...config.Check) (*config.Config, config.Sources, error) {
	if path == "" {
		_, err := os.Stat(defaultConfig)
		switch {
		case err == nil:
			path = defaultConfig
		case errors.Is(err, fs.ErrNotExist):
			return fromEnvironment(more...)
		default:
			return nil, nil, usageError{err}
		}
	}
	cfg, from, err := config.LoadSources(path, more...)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%w; correct --config, or leave it out for %s", err, defaultConfig)
	case errors.Is(err, fs.ErrPermission):
		err = fmt.Errorf("%w; run it as a user who may read it, such as the daemon's", err)
	}
	if err != nil {
		return nil, nil, usageError{err}
	}
	return cfg, from, nil
}

func fromEnvironment(more ...config.Check) (*config.Config, config.Sources, error) {
	cfg, from, err := config.OverlaySources(config.Default(), more...)
	if err != nil {
		sep := "; "
		if strings.Contains(err.Error(), "\n") {
			sep = "\n" // a line for each fault
		}
		return nil, nil, usagef("%w%sthere is no %s: name a file with --config, set $RAWBLOCKD_SLABS, or try --dev DIR", err, sep, defaultConfig)
	}
	return cfg, from, nil
}

func (c *cli) configVerb() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Check or print a configuration"}
	path := ""
	cmd.PersistentFlags().StringVar(&path, "config", "", "configuration file (default "+defaultConfig+")")
	registered(cmd.MarkPersistentFlagFilename("config", "yaml", "yml"))
	cmd.AddCommand(c.configCheckVerb(&path), c.configPrintVerb(&path))
	return cmd
}

func (c *cli) configCheckVerb(path *string) *cobra.Command {
	cmd := &cobra.Command{Use: "check", Short: "Report every fault of a configuration", Args: cobra.NoArgs}
	cmd.RunE = func(*cobra.Command, []string) error {
		var named secrets
		cfg, _, err := loadSources(*path, named.read)
		if err != nil {
			return err
		}
		for _, n := range cfg.Notes() {
			fmt.Fprintf(c.stdout, "note: %s\n", n)
		}
		for _, w := range append(cfg.Warnings(), named.warnings(cfg, time.Now())...) {
			fmt.Fprintf(c.stdout, "warning: %s\n", w)
		}
		_, err = fmt.Fprintf(c.stdout, "ok: %d slabs, %d namespaces\n", len(cfg.Slabs), len(cfg.Namespaces))
		return err
	}
	return cmd
}

func (c *cli) configPrintVerb(path *string) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use: "print", Short: "Print the configuration in effect, defaults and environment included", Args: cobra.NoArgs,
		Long: "Print the configuration in effect. The comment behind each value says where it comes from: default,\n" +
			"FILE:LINE or $VARIABLE. What is printed, as YAML or as JSON, is a configuration file itself.",
	}
	cmd.RunE = func(*cobra.Command, []string) error {
		cfg, from, err := loadSources(*path)
		if err != nil {
			return err
		}
		var text []byte
		if asJSON {
			text, err = cfg.JSON()
		} else {
			text, err = cfg.Annotated(from)
		}
		if err != nil {
			return err
		}
		_, err = c.stdout.Write(text)
		return err
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON, without the sources")
	return cmd
}
