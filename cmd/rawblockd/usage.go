// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// strict makes wrong usage of root, and of every verb below it, an error of one
// line that names the verb; cobra would print help, or several lines, or leave
// the verb out. The errors come before any verb's own code.
func strict(root *cobra.Command) {
	root.SetHelpCommand(helpVerb(root))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%s%w", prefix(cmd), err)
	})
	strictArgs(root)
}

func strictArgs(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		strictArgs(sub)
	}
	if cmd.HasSubCommands() {
		if cmd.RunE == nil {
			cmd.RunE = wantVerb // what cannot run is shown its help before Args is asked
			cmd.Args = wantVerb
			return
		}
		cmd.Args = func(cmd *cobra.Command, args []string) error { // it does something by itself
			if len(args) == 0 {
				return nil
			}
			return wantVerb(cmd, args)
		}
		return
	}
	check := cmd.Args
	if check == nil {
		return
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if check(cmd, args) == nil {
			return nil
		}
		return fmt.Errorf("%s%s; usage: %s", prefix(cmd), given(args), cmd.UseLine())
	}
}

// prefix names the verb in front of an error; the program's name is there
// already.
func prefix(cmd *cobra.Command) string {
	_, verb, ok := strings.Cut(cmd.CommandPath(), " ")
	if !ok {
		return ""
	}
	return verb + ": "
}

func given(args []string) string {
	switch len(args) {
	case 0:
		return "an argument is missing"
	case 1:
		return fmt.Sprintf("the argument %q is one too many", args[0])
	}
	return fmt.Sprintf("%d arguments are too many", len(args))
}

// wantVerb is the answer of a command that is nothing without one of its verbs.
func wantVerb(cmd *cobra.Command, args []string) error {
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	want := strings.Join(names, ", ")
	if len(args) == 0 {
		return fmt.Errorf("%sa verb is missing: want one of %s", prefix(cmd), want)
	}
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		want += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return fmt.Errorf("%sunknown verb %q: want one of %s", prefix(cmd), args[0], want)
}

// helpVerb is cobra's, but does not take an unknown verb for none.
func helpVerb(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [VERB...]",
		Short: "Show what a verb does and which flags it has",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err == nil && len(rest) > 0 {
				if cmd.HasSubCommands() {
					err = wantVerb(cmd, rest)
				} else {
					err = fmt.Errorf("help: %s has no verbs of its own", cmd.CommandPath())
				}
			}
			if err != nil {
				return usageError{err}
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

// ttlFlag is a time to live. Given, it is more than 0: 0 means the default to
// the daemon, and what is over already means nothing.
type ttlFlag struct{ ttl *time.Duration }

// String implements pflag.Value.
func (f ttlFlag) String() string {
	if f.ttl == nil || *f.ttl == 0 {
		return ""
	}
	return f.ttl.String()
}

// Set implements pflag.Value.
func (f ttlFlag) Set(s string) error {
	ttl, err := time.ParseDuration(s)
	if err != nil {
		return errors.New("want a number with one of the units ms, s, m, h")
	}
	if ttl <= 0 {
		return errors.New("want more than 0; leave the flag out for the default")
	}
	*f.ttl = ttl
	return nil
}

// Type implements pflag.Value.
func (f ttlFlag) Type() string { return "duration" }
