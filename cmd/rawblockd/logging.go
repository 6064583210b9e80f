// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/rawblockd/rawblockd/config"
)

// newLogger makes the daemon's log. The configuration is valid.
func newLogger(w io.Writer, c config.Log) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err != nil {
		return nil, fmt.Errorf("log.level: %w", err)
	}
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: flatten}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return slog.New(slog.NewTextHandler(w, o)), nil
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
