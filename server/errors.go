// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/store"
)

// errGone means that the client's connection failed: nobody reads an answer.
var errGone = errors.New("the client is gone")

// finish ends a request whose handler returned err.
func (s *Server) finish(x *exchange, r *http.Request, err error) {
	switch {
	case err == nil:
		return
	case x.code != 0 || errors.Is(err, errGone):
		s.o.Log.Debug("request aborted", "method", r.Method, "route", r.Pattern, "err", err)
		panic(http.ErrAbortHandler)
	}
	p := s.asProblem(x, err)
	if p.Code == api.CodeBodyTooSlow {
		s.metrics.cutOff(sends, x.hold.isCut(sends))
		s.o.Log.Warn("client cut off: its body came too slowly", "method", r.Method, "route", routeLabel(r), "remote", remote(r),
			"bytes_received", x.body.got.Load(), "after", time.Since(x.began))
	}
	if p.Status >= http.StatusInternalServerError && !expected(p) {
		s.o.Log.Warn("request failed", "method", r.Method, "route", r.Pattern, "code", p.Code, "err", err)
	}
	s.refuse(x, p)
}

// expected tells whether a problem with a code from 500 on says nothing of how
// the daemon is: there is no room, or a lease was asked for where there is
// nothing to stage.
func expected(p *api.Problem) bool {
	switch p.Code {
	case string(api.StatusMissing), string(api.StatusExpired), api.CodeNoSegment:
		return true
	}
	return p.Status == http.StatusInsufficientStorage
}

// refuse sends a problem. Before that it reads what is left of the body, unless
// the client waits to be told to send it; then, or if there is too much of it,
// the connection ends with the answer.
func (s *Server) refuse(x *exchange, p *api.Problem) {
	h := x.Header()
	unsent := x.body.waits && !x.body.begun
	// The slack lets a body that is just over the limit end in peace.
	if unsent || !x.body.drain(s.o.Limits.Payload+piece) || p.Close {
		h.Set("Connection", "close")
		x.body.arm(0)
	}
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	h.Del("Content-Length")
	// An answer that nobody takes is the client's loss; net/http ends the
	// connection by itself.
	_ = x.answer(p.Status, api.MediaProblem, p)
}

// asProblem is the one place where errors become HTTP.
func (s *Server) asProblem(x *exchange, err error) *api.Problem {
	var p *api.Problem
	var frame *api.FrameError
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, store.ErrNamespace):
		return api.NewProblem(http.StatusNotFound, api.CodeUnknownNamespace, "namespace", "%s; %s", without(err, store.ErrNamespace), s.namespaces(x))
	case errors.Is(err, store.ErrNoLease):
		return api.NewProblem(http.StatusNotFound, api.CodeUnknownLease, "lease", "%s: it has ended or never was", without(err, store.ErrNoLease))
	case errors.Is(err, store.ErrSlab):
		return api.NewProblem(http.StatusNotFound, api.CodeUnknownSlab, "slab", "%s", without(err, store.ErrSlab))
	case errors.Is(err, store.ErrInvalidKey):
		return api.StatusProblem(api.StatusInvalidKey, without(err, store.ErrInvalidKey))
	case errors.Is(err, store.ErrCursor):
		return invalid("cursor", "take it from the last page's answer")
	case errors.Is(err, store.ErrNoMemory):
		s.metrics.outOfMemory(err)
		return api.StatusProblem(api.StatusBusy, err.Error()+"; try again")
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrClosed):
		return api.StatusProblem(api.StatusUnavailable, x.tell(err))
	case errors.Is(err, store.ErrOutcomeUnknown), errors.Is(err, context.DeadlineExceeded):
		return api.StatusProblem(api.StatusDeadline, x.explain(store.Deadline, err))
	case errors.Is(err, context.Canceled):
		return api.StatusProblem(api.StatusUnavailable, x.explain(store.Unavailable, err))
	case errors.As(err, &frame):
		return api.NewProblem(http.StatusBadRequest, api.CodeMalformedFrame, frame.Field, "%v; nothing was stored", frame)
	}
	return cmp.Or(changeProblem(err), api.NewProblem(http.StatusInternalServerError, api.CodeInternal, "", "see the daemon's log"))
}

// changeProblem is asProblem for refused changes of namespaces and slabs; nil for
// other errors.
func changeProblem(err error) *api.Problem {
	var setting *store.SettingError
	var sl *store.SlabError
	conflict := func(code, field string, sentinel error, more string) *api.Problem {
		return api.NewProblem(http.StatusConflict, code, field, "%s", without(err, sentinel)+more)
	}
	switch {
	case errors.As(err, &setting):
		return invalid(settingField(setting.Field), "%s", setting.Why)
	case errors.Is(err, store.ErrNotEmpty):
		return conflict(api.CodeNotEmpty, "namespace", store.ErrNotEmpty, "")
	case errors.Is(err, store.ErrFromConfig):
		return conflict(api.CodeFromConfig, "namespace", store.ErrFromConfig, "")
	case errors.Is(err, store.ErrFingerprint):
		return conflict(api.CodeFingerprint, "fingerprint", store.ErrFingerprint, "")
	case errors.Is(err, store.ErrScrubbing):
		return conflict(api.CodeScrubbing, "slab", store.ErrScrubbing, "; its progress is in the slab's status")
	case errors.Is(err, store.ErrNoScrub), errors.As(err, &sl):
		p := api.StatusProblem(api.StatusUnavailable, err.Error())
		p.RetryAfter = retrySlab
		return p
	}
	return nil
}

// bodyError says what a failed read of the body means. got of want bytes had
// arrived; want is negative where it was not declared.
func (x *exchange) bodyError(err error, got, want int64) error {
	progress := fmt.Sprintf("%d bytes arrived", got)
	if want >= 0 {
		progress = fmt.Sprintf("%d of %d bytes arrived", got, want)
	}
	var p *api.Problem
	switch {
	case errors.As(err, &p):
		return p
	case x.hold.isCut(sends):
		p = api.NewProblem(http.StatusRequestTimeout, api.CodeBodyTooSlow, "", "%s and then nothing for %v, while others waited for what the request held", progress, x.pace.Pressed)
	case errors.Is(err, os.ErrDeadlineExceeded) && x.body.late():
		p = api.StatusProblem(api.StatusDeadline, progress+"; "+x.explain(store.Deadline, context.DeadlineExceeded))
	case errors.Is(err, os.ErrDeadlineExceeded):
		p = api.NewProblem(http.StatusRequestTimeout, api.CodeBodyTooSlow, "", "%s; send each MiB within %v", progress, x.pace.allow(piece))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		p = api.NewProblem(http.StatusBadRequest, api.CodeBodyTooShort, "Content-Length", "%s", progress)
	default:
		return fmt.Errorf("%w: %s: %w", errGone, progress, err)
	}
	p.Close = true
	return p
}

func invalid(field, detail string, args ...any) *api.Problem {
	return api.NewProblem(http.StatusBadRequest, api.CodeInvalidField, field, detail, args...)
}
