// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rawblockd/rawblockd/config"
)

const defaultConfig = "/etc/rawblockd/rawblockd.yaml"

// loadConfig reads the file at path. Without a path it is the default file, and
// where that is missing the environment alone.
func loadConfig(path string) (*config.Config, error) {
	if path == "" {
		_, err := os.Stat(defaultConfig)
		switch {
		case err == nil:
			path = defaultConfig
		case errors.Is(err, fs.ErrNotExist):
			return fromEnvironment()
		default:
			return nil, usageError{err}
		}
	}
	cfg, err := config.Load(path)
	if err != nil {
		return nil, usageError{err}
	}
	return cfg, nil
}

func fromEnvironment() (*config.Config, error) {
	cfg, err := config.Overlay(config.Default())
	if err != nil {
		sep := "; "
		if strings.Contains(err.Error(), "\n") {
			sep = "\n" // a line for each fault
		}
		return nil, usagef("%w%sthere is no %s: name a file with --config, set $RAWBLOCKD_SLABS, or try --dev DIR", err, sep, defaultConfig)
	}
	return cfg, nil
}

func (c *cli) configVerb() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Check or print a configuration"}
	path := ""
	check := &cobra.Command{Use: "check", Short: "Report every fault of a configuration", Args: cobra.NoArgs}
	check.RunE = func(*cobra.Command, []string) error {
		cfg, err := loadConfig(path)
		if err != nil {
			return err
		}
		for _, n := range cfg.Notes() {
			fmt.Fprintf(c.stdout, "note: %s\n", n)
		}
		_, err = fmt.Fprintf(c.stdout, "ok: %d slabs, %d namespaces\n", len(cfg.Slabs), len(cfg.Namespaces))
		return err
	}
	show := &cobra.Command{Use: "print", Short: "Print the configuration in effect, defaults and environment included", Args: cobra.NoArgs}
	show.RunE = func(*cobra.Command, []string) error {
		cfg, err := loadConfig(path)
		if err != nil {
			return err
		}
		text, err := cfg.YAML()
		if err != nil {
			return err
		}
		_, err = c.stdout.Write(text)
		return err
	}
	cmd.PersistentFlags().StringVar(&path, "config", "", "configuration file (default "+defaultConfig+")")
	cmd.AddCommand(check, show)
	return cmd
}
