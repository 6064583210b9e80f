// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"os"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Plain ANSI.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // the other screen, without a cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	homeScreen  = "\x1b[H"
	restOfLine  = "\x1b[K"
	restBelow   = "\x1b[J"
)

// screen is a terminal that shows one report in place of the one before.
type screen struct{ out io.Writer }

func (s *screen) open()  { _, _ = io.WriteString(s.out, enterScreen) } // a terminal that is gone ends the loop elsewhere
func (s *screen) close() { _, _ = io.WriteString(s.out, leaveScreen) }

// show writes in one call, so that nothing flickers.
func (s *screen) show(r topReport) error {
	var text bytes.Buffer
	if err := r.write(&text); err != nil {
		return err
	}
	width, height := s.size()
	var b bytes.Buffer
	b.WriteString(homeScreen)
	lines := bytes.Split(bytes.TrimSuffix(text.Bytes(), []byte("\n")), []byte("\n"))
	for i, line := range lines[:min(len(lines), height)] {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.Write(clip(line, width))
		b.WriteString(restOfLine)
	}
	b.WriteString(restBelow)
	_, err := s.out.Write(b.Bytes())
	return err
}

// size asks at every refresh, for a window may have been changed.
func (s *screen) size() (width, height int) {
	if f, ok := s.out.(*os.File); ok {
		if w, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && w.Col > 0 && w.Row > 0 {
			return int(w.Col), int(w.Row)
		}
	}
	return 80, 24
}

// clip cuts a line off after so many characters: a terminal would go on below.
func clip(line []byte, width int) []byte {
	at := 0
	for range width {
		if at >= len(line) {
			return line
		}
		_, n := utf8.DecodeRune(line[at:])
		at += n
	}
	return line[:at]
}
