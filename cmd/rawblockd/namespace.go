// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/client"
)

func (c *cli) namespaceVerb() *cobra.Command {
	cmd := &cobra.Command{Use: "namespace", Short: "List, show, make, change and delete namespaces"}
	cmd.AddCommand(c.namespaceListVerb(), c.namespaceShowVerb(), c.namespaceSetVerb(), c.namespaceDeleteVerb())
	return cmd
}

func (c *cli) namespaceListVerb() *cobra.Command {
	return c.daemonCommand("list", "List the namespaces, their settings and what they use", cobra.NoArgs,
		func(ctx context.Context, cl *client.Client, t *target, _ []string) error {
			all, err := cl.Namespaces(ctx)
			if err != nil {
				return err
			}
			if t.json {
				return c.printJSON(api.NamespacesResponse{Namespaces: all})
			}
			rows := [][]string{{"NAMESPACE", "ENTRIES", "SLOT BYTES", "QUOTA", "PINNED", "TTL", "SLABS", "FROM"}}
			for _, n := range all {
				rows = append(rows, []string{
					n.Name, count(n.Entries), size(n.SlotBytes), quotaText(n.Quota), size(n.PinnedBytes), ttlText(n.TTLMS), slabsText(n.Slabs), originText(n),
				})
			}
			return c.table(rows)
		})
}

// namedCommand makes a verb about the namespace that its argument names.
func (c *cli) namedCommand(use, short string, do clientFunc) (*cobra.Command, *target) {
	cmd, t := c.targetCommand(use, short, cobra.ExactArgs(1), func(ctx context.Context, cl *client.Client, t *target, args []string) error {
		if args[0] == "" {
			return usagef("%s: the name is empty", use)
		}
		return do(ctx, cl.In(args[0]), t, args)
	})
	cmd.ValidArgsFunction = onlyFirst(t.complete(cmd, namespaceNames))
	return cmd, t
}

func (c *cli) namespaceShowVerb() *cobra.Command {
	cmd, _ := c.namedCommand("show NAME", "Show the settings of a namespace and what it uses",
		func(ctx context.Context, cl *client.Client, t *target, _ []string) error {
			n, err := cl.Settings(ctx)
			if err != nil {
				return err
			}
			if t.json {
				return c.printJSON(n)
			}
			return c.printNamespace(n)
		})
	return cmd
}

func (c *cli) printNamespace(n api.Namespace) error {
	return c.table([][]string{
		{"namespace", n.Name},
		{"from", originText(n)},
		{"slabs", slabsText(n.Slabs)},
		{"quota", quotaText(n.Quota)},
		{"ttl", ttlText(n.TTLMS)},
		{"fingerprint", firstOf(n.Fingerprint, "none")},
		{"entries", count(n.Entries)},
		{"slot bytes", size(n.SlotBytes)},
		{"pinned", size(n.PinnedBytes)},
	})
}

// settings are the flags of namespace set.
type settings struct {
	slabs       []string
	quota       sizeFlag
	ttl         lifeFlag
	fingerprint string
}

func (c *cli) namespaceSetVerb() *cobra.Command {
	var s settings
	var cmd *cobra.Command
	cmd, t := c.namedCommand("set NAME", "Make a namespace, or change settings of it",
		func(ctx context.Context, cl *client.Client, t *target, _ []string) error {
			res, err := cl.PutSettings(ctx, s.request(cmd.Flags().Changed))
			if err != nil {
				return err
			}
			if t.json {
				return c.printJSON(res)
			}
			if err := c.printNamespace(res.Namespace); err != nil {
				return err
			}
			done := "changed"
			switch {
			case res.Created:
				done = "made"
			case s.request(cmd.Flags().Changed) == (api.NamespaceRequest{}):
				done = "it is there, and nothing was changed: name what to change by --slabs, --quota, --ttl or --fingerprint"
			}
			_, err = fmt.Fprintf(c.stdout, "%s: %s\n", res.Name, done)
			return err
		})
	cmd.Long = "Make a namespace, or change settings of it. What no flag names keeps its value; of a new namespace it is the\n" +
		"default: all slabs, no quota, no time to live, no fingerprint. The change is durable when this returns. The\n" +
		"configuration file wins again only when its section for the namespace changes."
	f := cmd.Flags()
	f.StringSliceVar(&s.slabs, "slabs", nil, `names of slabs, with commas between; "" for all there are`)
	f.Var(&s.quota, "quota", "bytes of slots that it may use; 0 for no limit of its own")
	f.Var(&s.ttl, "ttl", "time to live of entries stored without one; 0 for none")
	f.StringVar(&s.fingerprint, "fingerprint", "", "of the model whose entries it holds")
	registered(cmd.RegisterFlagCompletionFunc("slabs", listOf(t.complete(cmd, slabNames))))
	registered(cmd.RegisterFlagCompletionFunc("quota", sizes()))
	registered(cmd.RegisterFlagCompletionFunc("ttl", durations()))
	return cmd
}

// request returns what the flags that were given ask for.
func (s *settings) request(changed func(flag string) bool) api.NamespaceRequest {
	var r api.NamespaceRequest
	if changed("slabs") {
		r.Slabs = &s.slabs
		if len(s.slabs) == 0 {
			r.Slabs = &[]string{}
		}
	}
	if changed("quota") {
		n := int64(s.quota.bytes)
		r.Quota = &n
	}
	if changed("ttl") {
		ms := s.ttl.ms
		r.TTLMS = &ms
	}
	if changed("fingerprint") {
		r.Fingerprint = &s.fingerprint
	}
	return r
}

func (c *cli) namespaceDeleteVerb() *cobra.Command {
	cmd, _ := c.namedCommand("delete NAME", "Delete a namespace that holds nothing",
		func(ctx context.Context, cl *client.Client, t *target, _ []string) error {
			err := cl.DeleteNamespace(ctx)
			var e *client.Error
			if errors.As(err, &e) && e.Code() == api.CodeNotEmpty {
				return fmt.Errorf("%w; to lose them, run: rawblockd clear -n %s", err, cl.Namespace())
			}
			if err != nil {
				return err
			}
			if t.json {
				return c.printJSON(api.DeleteNamespaceResponse{Name: cl.Namespace()})
			}
			_, err = fmt.Fprintf(c.stdout, "%s: deleted\n", cl.Namespace())
			return err
		})
	return cmd
}

// lifeFlag is a time to live that may be 0, for none.
type lifeFlag struct {
	text string
	ms   int64
}

// String implements pflag.Value.
func (f *lifeFlag) String() string { return f.text }

// Set implements pflag.Value.
func (f *lifeFlag) Set(s string) error {
	ttl := time.Duration(0)
	if s != "0" {
		var err error
		if ttl, err = time.ParseDuration(s); err != nil {
			return errors.New("want a number with one of the units ms, s, m, h, or 0 for none")
		}
	}
	if ttl < 0 || ttl%time.Millisecond != 0 {
		return errors.New("want whole milliseconds, and not less than 0")
	}
	f.text, f.ms = s, ttl.Milliseconds()
	return nil
}

// Type implements pflag.Value.
func (f *lifeFlag) Type() string { return "duration" }

func quotaText(n int64) string {
	if n == 0 {
		return "none"
	}
	return size(n)
}

func ttlText(ms int64) string {
	if ms == 0 {
		return "none"
	}
	return (time.Duration(ms) * time.Millisecond).String()
}

func slabsText(names []string) string {
	if len(names) == 0 {
		return "all"
	}
	return strings.Join(names, ",")
}

func originText(n api.Namespace) string {
	switch {
	case !n.Served:
		return "an earlier configuration (not served)"
	case n.FromConfig:
		return "configuration"
	}
	return "API"
}
