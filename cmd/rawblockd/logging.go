// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"log/slog"
	"strings"

	"github.com/rawblockd/rawblockd/config"
)

// newLogger makes the daemon's log, whose level can be changed. The configuration
// is valid.
func newLogger(w io.Writer, c config.Log) (*slog.Logger, *slog.LevelVar) {
	at := &slog.LevelVar{}
	at.Set(level(c))
	o := &slog.HandlerOptions{Level: at, ReplaceAttr: flatten}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, o)), at
	}
	return slog.New(slog.NewTextHandler(w, o)), at
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
