// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rawblockd/rawblockd/client"
)

// completeWithin bounds how long a shell waits for the daemon's names.
const completeWithin = time.Second

type completion = func(cmd *cobra.Command, args []string, part string) ([]string, cobra.ShellCompDirective)

// complete offers what the daemon that the flags name knows. Without a daemon it
// offers nothing: a shell is no place for errors.
func (t *target) complete(cmd *cobra.Command, names func(ctx context.Context, cl *client.Client) ([]string, error)) completion {
	return func(_ *cobra.Command, _ []string, part string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
		defer cancel()
		cl, err := t.connect(cmd.Name())
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer cl.Close()
		all, err := names(ctx, cl)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return beginning(all, part), cobra.ShellCompDirectiveNoFileComp
	}
}

func beginning(all []string, with string) []string {
	var out []string
	for _, s := range all {
		if strings.HasPrefix(s, with) {
			out = append(out, s)
		}
	}
	return out
}

// registered takes the error of a registration, which only a flag that is not
// there can cause.
func registered(err error) {
	if err != nil {
		panic(err)
	}
}

// onlyFirst completes the first argument alone.
func onlyFirst(first completion) completion {
	return func(cmd *cobra.Command, args []string, part string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return first(cmd, args, part)
	}
}

func namespaceNames(ctx context.Context, cl *client.Client) ([]string, error) {
	info, err := cl.Info(ctx) // every listener answers it, with what the caller may see
	return info.Namespaces, err
}

func slabNames(ctx context.Context, cl *client.Client) ([]string, error) {
	all, err := cl.Slabs(ctx)
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
	}
	return names, err
}

func leaseIDs(ctx context.Context, cl *client.Client) ([]string, error) {
	all, err := cl.Leases(ctx)
	var ids []string
	for _, l := range all {
		ids = append(ids, l.ID+"\t"+l.Namespace+" "+visible(l.Owner))
	}
	return ids, err
}

func words(all ...string) completion {
	return func(_ *cobra.Command, _ []string, part string) ([]string, cobra.ShellCompDirective) {
		return beginning(all, part), cobra.ShellCompDirectiveNoFileComp
	}
}

// listOf completes the last word of a list with commas between.
func listOf(one completion) completion {
	return func(cmd *cobra.Command, args []string, part string) ([]string, cobra.ShellCompDirective) {
		at := strings.LastIndexByte(part, ',') + 1
		all, directive := one(cmd, args, part[at:])
		for i := range all {
			all[i] = part[:at] + all[i]
		}
		return all, directive | cobra.ShellCompDirectiveNoSpace
	}
}

func sizes() completion { return words("0", "16GiB", "64GiB", "256GiB", "1TiB") }

func durations() completion { return words("0", "10m", "1h", "24h") }
