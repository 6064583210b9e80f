// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/rawblockd/rawblockd/config"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// cli is one invocation.
type cli struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	lookupEnv      func(string) (string, bool)
	began          bool // a verb's own code runs; errors before that are wrong usage
}

// usageError is wrong usage or configuration that only the verb could notice.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// run executes the command line args and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	c := &cli{stdin: stdin, stdout: stdout, stderr: stderr, lookupEnv: os.LookupEnv}
	root := c.root()
	root.SetArgs(append([]string{}, args...)) // nil would be those of the process
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx))) {
		err = errors.New("interrupted")
	}
	var usage usageError
	var conf *config.Error
	switch {
	case errors.As(err, &conf):
		fmt.Fprintf(stderr, "rawblockd: %v\n", err) // one line for each fault
	case !c.began:
		fmt.Fprintf(stderr, "rawblockd: %s; --help says what there is\n", oneLine(err))
	default:
		fmt.Fprintf(stderr, "rawblockd: %s\n", oneLine(err))
	}
	switch {
	case !c.began:
		return exitUsage
	case errors.As(err, &usage), errors.As(err, &conf):
		return exitUsage
	}
	return exitFailed
}

func (c *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "rawblockd",
		Short:         "Keeps KV-cache chunks on raw NVMe devices",
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRun: func(*cobra.Command, []string) {
			c.began = true
		},
	}
	root.SetIn(c.stdin)
	root.SetOut(c.stdout) // before the completion verb is made, which keeps it
	root.SetErr(c.stderr)
	root.AddGroup(&cobra.Group{ID: "daemon", Title: "Device and daemon:"}, &cobra.Group{ID: "client", Title: "Client of a running daemon:"})
	for _, v := range []func() *cobra.Command{c.initVerb, c.inspectVerb, c.serveVerb, c.demoVerb, c.configVerb, c.doctorVerb, c.benchVerb} {
		v := v()
		v.GroupID = "daemon"
		root.AddCommand(v)
	}
	for _, v := range []func() *cobra.Command{
		c.statusVerb, c.topVerb, c.requestsVerb, c.putVerb, c.getVerb, c.rmVerb, c.lookupVerb, c.touchVerb, c.explainVerb, c.lsVerb,
		c.pinVerb, c.unpinVerb, c.leasesVerb, c.namespaceVerb, c.clearVerb, c.eventsVerb, c.drainVerb, c.resumeVerb, c.scrubVerb,
	} {
		v := v()
		v.GroupID = "client"
		root.AddCommand(v)
	}
	root.AddCommand(c.versionVerb())
	strict(root)
	return root
}

// sizeFlag is a flag that takes a size as the configuration does.
type sizeFlag struct{ bytes config.Size }

// String implements pflag.Value.
func (f *sizeFlag) String() string {
	if f.bytes == 0 {
		return ""
	}
	return f.bytes.String()
}

// Set implements pflag.Value.
func (f *sizeFlag) Set(s string) error {
	n, err := config.ParseSize(s)
	f.bytes = n
	return err
}

// Type implements pflag.Value.
func (f *sizeFlag) Type() string { return "size" }
