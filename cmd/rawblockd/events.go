// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/client"
)

// watch is one run of the events verb.
type watch struct {
	o        client.EventOptions
	only     []string // kinds to print; empty: all
	changes  bool     // leave out the snapshot
	asJSON   bool
	last     uint64 // Seq of the last event
	instance string
}

func (c *cli) eventsVerb() *cobra.Command {
	var w watch
	cmd := c.clientCommand("events", "Follow what is stored and removed, until interrupted", cobra.NoArgs,
		func(ctx context.Context, cl *client.Client, t *target, _ []string) error {
			if err := w.check(); err != nil {
				return err
			}
			w.asJSON = t.json
			return c.follow(ctx, cl, &w)
		})
	cmd.Long = "Print what is there (snapshot), then what is stored and removed, a line for each, until interrupted. At its end it\n" +
		"says on stderr how to go on from there. With --json the lines are the daemon's own, one object each."
	f := cmd.Flags()
	f.BoolVar(&w.o.All, "all", false, "of all namespaces")
	f.BoolVar(&w.o.Once, "once", false, "end after what there is")
	f.BoolVar(&w.changes, "changes", false, "leave out the snapshot of what is there")
	f.StringSliceVar(&w.only, "only", nil, "kinds of events to print, with commas between: snapshot, stored, removed, synced, lost, idle")
	f.Uint64Var(&w.o.Since, "since", 0, "go on behind the event with this number, of --instance and of the same namespaces")
	f.StringVar(&w.o.Instance, "instance", "", "the daemon's instance that --since is of")
	cmd.Flags().Lookup("json").Usage = "print one JSON object a line"
	registered(cmd.RegisterFlagCompletionFunc("only", listOf(words(eventKinds()...))))
	return cmd
}

func eventKinds() []string {
	return []string{api.EventSnapshot, api.EventStored, api.EventRemoved, api.EventSynced, api.EventLost, api.EventIdle}
}

func (w *watch) check() error {
	if (w.o.Since > 0) != (w.o.Instance != "") {
		return usagef("events: --since and --instance belong together: the number means nothing to another instance")
	}
	for _, kind := range w.only {
		if !slices.Contains(eventKinds(), kind) {
			return usagef("events: --only %q: want one or more of snapshot, stored, removed, synced, lost, idle", kind)
		}
	}
	return nil
}

// follow prints events until the stream or ctx ends.
func (c *cli) follow(ctx context.Context, cl *client.Client, w *watch) error {
	es, err := cl.Events(ctx, w.o)
	if err != nil {
		return err
	}
	defer func() { _ = es.Close() }() // reading it has said all there is
	w.instance = es.Instance
	for {
		ev, err := es.Next()
		switch {
		case err != nil && ctx.Err() != nil:
			c.whereToGoOn(w)
			return nil // the way a stream is left
		case errors.Is(err, io.EOF) && w.o.Once:
			return nil
		case errors.Is(err, io.EOF):
			c.whereToGoOn(w)
			return errors.New("events: the daemon ended the stream: it is being stopped, or what may be seen here was changed; start this again")
		case err != nil:
			c.whereToGoOn(w)
			return err
		}
		if ev.Seq > 0 {
			w.last = ev.Seq
		}
		if err := c.printEvent(w, ev); err != nil {
			return err
		}
		if ev.Event == api.EventLost {
			return errors.New("events: the daemon could not keep the events for a reader this slow: start again, with a snapshot")
		}
	}
}

func (c *cli) whereToGoOn(w *watch) {
	if w.last > 0 {
		fmt.Fprintf(c.stderr, "to go on from here: --since %d --instance %s\n", w.last, w.instance)
	}
}

func (c *cli) printEvent(w *watch, ev api.Event) error {
	switch {
	case len(w.only) > 0 && !slices.Contains(w.only, ev.Event):
		return nil
	case len(w.only) == 0 && w.changes && ev.Event == api.EventSnapshot:
		return nil
	case w.asJSON:
		return json.NewEncoder(c.stdout).Encode(ev)
	case ev.Event == api.EventIdle && len(w.only) == 0:
		return nil
	}
	_, err := fmt.Fprintf(c.stdout, "%s  %-8s  %-9s  %14s  %-12s  %s\n",
		moment(ev.At), ev.Event, firstOf(ev.Reason, "-"), count(ev.Bytes), firstOf(ev.Namespace, "-"), ev.Key)
	return err
}
