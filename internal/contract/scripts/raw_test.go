// SPDX-License-Identifier: Apache-2.0

package scripts

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rawblockd/rawblockd/internal/contract"
)

// cmdRaw sends bytes, which are written with Go's escapes, and reads one answer.
// With -end nothing more will come.
func cmdRaw(ts *testscript.TestScript, neg bool, args []string) {
	s := of(ts)
	listener := "unix"
	if len(args) > 2 && args[0] == "-to" {
		listener, args = args[1], args[2:]
	}
	ends := len(args) == 2 && args[1] == "-end"
	if neg || len(args) != 1 && !ends {
		usage(ts, "raw [-to LISTENER] TEXT [-end]")
	}
	text, err := strconv.Unquote(`"` + strings.ReplaceAll(args[0], `"`, `\"`) + `"`)
	ts.Check(err)
	conn, err := s.dial(ts, listener)
	ts.Check(err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, text)
	ts.Check(err)
	if ends {
		ts.Check(conn.(interface{ CloseWrite() error }).CloseWrite())
	}
	e := contract.Exchange{Listener: listener, Complete: true}
	req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
	if err == nil {
		e.Method, e.Target, e.Header = req.Method, req.RequestURI, req.Header
		e.Body, err = io.ReadAll(req.Body)
		e.Whole = err == nil
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), req)
	ts.Check(err)
	defer func() { _ = resp.Body.Close() }()
	e.Status, e.Answer = resp.StatusCode, resp.Header
	e.Content, err = io.ReadAll(resp.Body)
	ts.Check(err)
	s.see(ts, e)
	fmt.Fprintf(ts.Stdout(), "HTTP %d\n\n%s", e.Status, e.Content)
}
