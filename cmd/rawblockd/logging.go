// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"log/slog"
	"strings"

	"github.com/rawblockd/rawblockd/config"
	"github.com/rawblockd/rawblockd/server"
)

// newLogger makes the daemon's log, whose level can be changed. The configuration
// is valid. Audit lines are written at every level: who turns the log down does not
// mean to lose the record of who cleared what.
func newLogger(w io.Writer, c config.Log) (*slog.Logger, *slog.LevelVar) {
	at := &slog.LevelVar{}
	at.Set(level(c))
	o := &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: flatten}
	var lines slog.Handler = slog.NewTextHandler(w, o)
	if c.Format == "json" {
		lines = slog.NewJSONHandler(w, o)
	}
	return slog.New(levelled{lines, at}), at
}

// levelled keeps lines below a level back, but not those of the audit.
type levelled struct {
	slog.Handler
	at *slog.LevelVar
}

// Enabled implements slog.Handler.
func (h levelled) Enabled(_ context.Context, l slog.Level) bool {
	return l >= min(h.at.Level(), slog.LevelInfo)
}

// Handle implements slog.Handler.
func (h levelled) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < h.at.Level() && r.Message != server.AuditMessage {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h levelled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return levelled{h.Handler.WithAttrs(attrs), h.at}
}

// WithGroup implements slog.Handler.
func (h levelled) WithGroup(name string) slog.Handler {
	return levelled{h.Handler.WithGroup(name), h.at}
}

// level is the level of a valid configuration.
func level(c config.Log) slog.Level {
	var l slog.Level
	if err := l.UnmarshalText([]byte(c.Level)); err != nil {
		return slog.LevelInfo
	}
	return l
}

// flatten keeps joined errors in one line of readable text, whoever logs them.
func flatten(_ []string, a slog.Attr) slog.Attr {
	if err, ok := a.Value.Any().(error); ok && err != nil {
		a.Value = slog.StringValue(oneLine(err))
	}
	return a
}

// oneLine makes one line of an error, which has several when it was joined.
func oneLine(err error) string {
	var parts []string
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); line != "" {
			parts = append(parts, line)
		}
	}
	return strings.Join(parts, "; ")
}
