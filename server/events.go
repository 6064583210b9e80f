// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/store"
	"github.com/rawblockd/rawblockd/tokens"
)

// idleEvery is how long a stream of events says nothing at most: a client that
// hears nothing for longer has lost it.
const idleEvery = 15 * time.Second

// eventPart is how much of a stream, in bytes, is sent at once while there is
// more.
const eventPart = 32 << 10

// events streams what is stored and removed, a line each, until the client leaves
// or the daemon stops. Its time is not bounded, only that of each write.
func (s *Server) events(x *exchange, r *http.Request) error {
	q := newQuery(r)
	ns, since, instance := q.text("namespace"), q.number("since", 0, math.MaxInt64), q.text("instance")
	follow := q.booleanOr("follow", true)
	if err := q.end(); err != nil {
		return err
	}
	if ns != "" {
		if err := x.reach(ns); err != nil {
			return err
		}
	}
	if instance != "" && instance != s.o.Instance {
		since = 0 // of another process, whose numbers were others
	}
	st, err := s.ready()
	if err != nil {
		return err
	}
	if ns != "" && !st.Serves(ns) {
		return fmt.Errorf("%w %q", store.ErrNamespace, ns)
	}
	ctx, err := s.stream(x, r, follow)
	if err != nil {
		return err
	}
	defer s.streams.remove(x)
	about := s.audience(x, st, ns)
	feed, err := st.Events(ctx, about.view, uint64(since))
	if err != nil {
		return err
	}
	defer feed.Close()
	x.Header().Set("Content-Type", api.MediaNDJSON)
	x.WriteHeader(http.StatusOK)
	w := eventWriter{x: x, feed: feed, follow: follow, may: about.may}
	return w.run(ctx)
}

// audience is who hears of what in a stream: numbers are of one view, so a stream has
// one as long as it lasts.
type audience struct {
	s    *Server
	x    *exchange
	st   *store.Store
	ns   string // the namespace that was asked for; "": all that x may use
	view store.View
	of   *tokens.Set // whose rights gave the view
}

func (s *Server) audience(x *exchange, st *store.Store, ns string) *audience {
	return &audience{s, x, st, ns, x.view(ns), x.access.from}
}

// may tells whether x may still hear of this, and of no more.
func (a *audience) may() bool {
	if !a.s.still(a.x) {
		return false
	}
	if a.ns != "" {
		return a.x.sees(a.ns) && a.st.Serves(a.ns)
	}
	if a.of != a.x.access.from {
		if !a.x.view("").Equal(a.view) {
			return false
		}
		a.of = a.x.access.from
	}
	return true
}

// view is one namespace, or for "" all that x may use.
func (x *exchange) view(ns string) store.View {
	switch {
	case ns != "":
		return store.ViewOf(ns)
	case x.access.everything:
		return store.ViewOfAll()
	}
	return store.ViewOf(slices.Collect(maps.Keys(x.access.namespaces))...)
}

// stream lets a stream begin, if there is a place for it: of those for streams, or,
// if it ends by itself, of those for all other requests. The caller takes it off
// s.streams.
func (s *Server) stream(x *exchange, r *http.Request, follow bool) (context.Context, error) {
	owner := ""
	if follow {
		x.endless, owner = true, x.owner(r)
	} else if err := s.occupy(x); err != nil {
		return nil, err
	}
	ctx, mine := s.streams.add(r.Context(), x, owner, s.places.limit)
	if ctx != nil {
		return ctx, nil
	}
	if _, err := s.ready(); err != nil {
		return nil, err
	}
	return nil, s.overloaded(place, "this client has %d streams of events open, and of limits.requests no more than that are free", mine)
}

// owner names whom a request is of where that counts: its token, or without one
// the host or process that it comes from.
func (x *exchange) owner(r *http.Request) string {
	if x.access.name != "" {
		return "token " + x.access.name
	}
	from := remote(r)
	if host, _, err := net.SplitHostPort(from); err == nil {
		from = host
	}
	return "peer " + from
}

// eventWriter writes a feed as lines.
type eventWriter struct {
	x      *exchange
	feed   *store.Feed
	follow bool
	may    func() bool // whether the client may still hear of this
	buf    []byte
	due    time.Time // when the client has to hear something
}

// run returns nil where the stream has come to its end.
func (w *eventWriter) run(ctx context.Context) error {
	w.due = time.Now().Add(idleEvery)
	for {
		ev, err := w.next(ctx)
		switch {
		case !w.may():
			w.buf = nil        // it may tell of what the client may not hear of any more
			w.x.writeWithin(0) // for the end of the body, perhaps long after the last line
			return nil
		// Asked first: the feed goes on as long as it has something.
		case ctx.Err() != nil, errors.Is(err, io.EOF), errors.Is(err, store.ErrClosed):
			return w.flush()
		case errors.Is(err, context.DeadlineExceeded):
			err = w.idle()
		case err == nil:
			err = w.tell(ev)
		}
		if err != nil {
			return err
		}
		if ev.Kind == store.EventSynced && !w.follow {
			return w.flush()
		}
	}
}

// next returns the next event; if it has to wait for one, it sends what there is
// first.
func (w *eventWriter) next(ctx context.Context) (store.Event, error) {
	ev, err := w.feed.Next(atOnce())
	if !errors.Is(err, context.Canceled) {
		return ev, err
	}
	if err := w.flush(); err != nil {
		return ev, err
	}
	wait, cancel := context.WithDeadline(ctx, w.due)
	defer cancel()
	return w.feed.Next(wait)
}

// atOnce is a context that has ended: with it a feed tells what there is.
func atOnce() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// tell writes one event.
func (w *eventWriter) tell(ev store.Event) error {
	line := api.Event{Seq: ev.Seq, Event: ev.Kind.String(), Namespace: ev.Namespace, Key: ev.Key, Bytes: ev.Bytes, At: fromMillis(ev.At)}
	if ev.Kind == store.EventRemoved {
		line.Reason = ev.Reason.String()
	}
	return w.line(line)
}

// idle says that nothing happened of what the client asked for, and up to where.
func (w *eventWriter) idle() error {
	if err := w.line(api.Event{Seq: w.feed.Seen(), Event: api.EventIdle, At: time.Now().UTC().Truncate(time.Millisecond)}); err != nil {
		return err
	}
	return w.flush()
}

func (w *eventWriter) line(ev api.Event) error {
	text, err := json.Marshal(ev)
	if err != nil {
		return err
	}
	w.buf = append(append(w.buf, text...), '\n')
	w.due = time.Now().Add(idleEvery)
	if len(w.buf) < eventPart {
		return nil
	}
	return w.flush()
}

// flush sends what has been written.
func (w *eventWriter) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	_, err := w.x.Write(w.buf)
	w.buf = w.buf[:0]
	if err != nil {
		return err
	}
	return w.x.rc.Flush()
}
