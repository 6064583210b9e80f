// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/sys/unix"
)

// printJSON prints v as one indented document.
func (c *cli) printJSON(v any) error {
	enc := json.NewEncoder(c.stdout)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// table prints rows in aligned columns.
func (c *cli) table(rows [][]string) error { return columns(c.stdout, rows) }

func columns(to io.Writer, rows [][]string) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		cells := make([]string, len(r))
		for i, cell := range r {
			cells[i] = visible(cell)
		}
		if _, err := fmt.Fprintln(w, strings.Join(cells, "\t")); err != nil {
			return err
		}
	}
	return w.Flush()
}

// visible returns s with what cannot be seen written out: labels that others chose,
// such as owners of leases and names of namespaces that they asked for, must not
// steer the terminal of whoever looks at them, nor begin a line of their own.
func visible(s string) string {
	if strings.IndexFunc(s, unseen) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unseen(r) {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func unseen(r rune) bool { return !unicode.IsPrint(r) }

func size(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }

func count[N ~int | ~int64 | ~uint32 | ~uint64](n N) string { return humanize.Comma(int64(n)) }

func moment(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Local().Format(time.DateTime)
}

// isTerminal tells whether somebody is at the other end of a reader or writer.
func isTerminal(end any) bool {
	f, ok := end.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// progressAbove is the transfer that is worth a bar.
const progressAbove = 64 << 20

// progress returns a writer that counts bytes into a bar on a terminal, and a
// function that ends it.
func (c *cli) progress(what string, total int64) (io.Writer, func()) {
	if total < progressAbove || !isTerminal(c.stderr) {
		return io.Discard, func() {}
	}
	bar := c.bar(what, total, progressbar.OptionShowBytes(true))
	return bar, func() { _ = bar.Finish() } // a bar that cannot be drawn is no reason to fail
}

// steps returns what sets a bar of so many steps on a terminal, and a function
// that ends it.
func (c *cli) steps(what string, total int64) (func(done int64), func()) {
	if total == 0 || !isTerminal(c.stderr) {
		return func(int64) {}, func() {}
	}
	bar := c.bar(what, total, progressbar.OptionShowCount())
	return func(done int64) { _ = bar.Set64(done) }, func() { _ = bar.Finish() } // as above
}

func (c *cli) bar(what string, total int64, more ...progressbar.Option) *progressbar.ProgressBar {
	return progressbar.NewOptions64(total, append(more,
		progressbar.OptionSetWriter(c.stderr), progressbar.OptionSetDescription(what),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(), progressbar.OptionUseIECUnits(true))...)
}
