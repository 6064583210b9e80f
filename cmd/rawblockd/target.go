// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/client"
	"github.com/rawblockd/rawblockd/config"
)

// target is the flags that every client verb has.
type target struct {
	cli       *cli
	addr      string
	namespace string
	json      bool
	credentials
}

// clientFunc is what a client verb does. cl is the client of the daemon that the
// flags name.
type clientFunc func(ctx context.Context, cl *client.Client, t *target, args []string) error

// clientCommand makes a client verb that is about a namespace.
func (c *cli) clientCommand(use, short string, args cobra.PositionalArgs, do clientFunc) *cobra.Command {
	cmd, t := c.targetCommand(use, short, args, do)
	cmd.Flags().StringVarP(&t.namespace, "namespace", "n", "", "namespace of the keys (default $RAWBLOCKD_NAMESPACE, then default)")
	registered(cmd.RegisterFlagCompletionFunc("namespace", t.complete(cmd, namespaceNames)))
	return cmd
}

// daemonCommand makes a client verb that is about the daemon as a whole.
func (c *cli) daemonCommand(use, short string, args cobra.PositionalArgs, do clientFunc) *cobra.Command {
	cmd, _ := c.targetCommand(use, short, args, do)
	return cmd
}

func (c *cli) targetCommand(use, short string, args cobra.PositionalArgs, do clientFunc) (*cobra.Command, *target) {
	t := &target{cli: c, credentials: credentials{warn: c.stderr}}
	cmd := &cobra.Command{Use: use, Short: short, Args: args, ValidArgsFunction: cobra.NoFileCompletions}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cl, err := t.connect(cmd.Name())
		if err != nil {
			return usageError{err}
		}
		defer cl.Close()
		return explain(do(cmd.Context(), cl, t, args))
	}
	f := cmd.Flags()
	f.StringVar(&t.addr, "addr", "", "unix:/path, http://host:port or https://host:port (default $RAWBLOCKD_ADDR, then the socket "+config.DefaultUnix+", then http://"+config.DefaultHTTP+")")
	t.credentials.flags(cmd)
	f.BoolVar(&t.json, "json", false, "print the daemon's answer as JSON")
	registered(cmd.RegisterFlagCompletionFunc("addr", words("unix:"+config.DefaultUnix, "http://"+config.DefaultHTTP, "http://"+config.DefaultAdmin)))
	return cmd, t
}

func (t *target) connect(verb string) (*client.Client, error) {
	ns := firstOf(t.namespace, t.env("RAWBLOCKD_NAMESPACE"), "default")
	addr := firstOf(t.addr, t.env("RAWBLOCKD_ADDR"), defaultAddr(verb, config.DefaultUnix))
	with, err := t.credentials.options(addr, t.env)
	if err != nil {
		return nil, err
	}
	return client.New(addr, ns, with...)
}

func (t *target) env(name string) string {
	v, _ := t.cli.lookupEnv(name)
	return v
}

// defaultAddr is where a daemon listens that was told nothing else. Over TCP
// what is about the whole is on the admin listener.
func defaultAddr(verb, socket string) string {
	if fi, err := os.Stat(socket); err == nil && fi.Mode()&os.ModeSocket != 0 {
		return "unix:" + socket
	}
	if onAdmin(verb) {
		return "http://" + config.DefaultAdmin
	}
	return "http://" + config.DefaultHTTP
}

func firstOf(s ...string) string {
	for _, v := range s {
		if v != "" {
			return v
		}
	}
	return ""
}

// explain adds what to do about a daemon that cannot be reached.
func explain(err error) error {
	if err, ok := explainAccess(err); ok {
		return err
	}
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "dial" {
		return err
	}
	switch {
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%w; you need the rights of the socket's group (listen.unix_group), or run as the daemon's user", err)
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w; no daemon listens there: start one with rawblockd serve, or name another with --addr or $RAWBLOCKD_ADDR", err)
	}
	return err
}

// keysOf returns the keys of a batch verb: the arguments, or with "-" alone one
// a line from stdin.
func (t *target) keysOf(ctx context.Context, args []string) ([]string, error) {
	if len(args) != 1 || args[0] != "-" {
		return args, nil
	}
	var keys []string
	in := bufio.NewScanner(t.cli.input(ctx))
	for in.Scan() {
		if k := strings.TrimSuffix(in.Text(), "\r"); k != "" {
			keys = append(keys, k)
		}
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("read keys from stdin: %w", err)
	}
	return keys, nil
}

// failedKeys is the error of a batch in which some keys came out with a status
// that the user would not call done.
func failedKeys(verb string, statuses []api.Status, done ...api.Status) error {
	bad := 0
	for _, s := range statuses {
		ok := false
		for _, d := range done {
			ok = ok || s == d
		}
		if !ok {
			bad++
		}
	}
	if bad == 0 {
		return nil
	}
	return fmt.Errorf("%s: %d of %d keys failed, see their status above", verb, bad, len(statuses))
}
