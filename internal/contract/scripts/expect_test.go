// SPDX-License-Identifier: Apache-2.0

package scripts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/internal/contract"
)

// cmdWant says what the last answer was: its status and, of a problem, the code
// and the field at fault.
func cmdWant(ts *testscript.TestScript, neg bool, args []string) {
	s := of(ts)
	if neg || len(args) == 0 || len(args) > 3 {
		usage(ts, "want STATUS [CODE [FIELD]]")
	}
	if err := wanted(s.last, args); err != nil {
		s.fail(ts, "%v", err)
	}
}

func wanted(e contract.Exchange, want []string) error {
	var p api.Problem
	if len(want) > 1 && e.Method != "HEAD" {
		if err := json.Unmarshal(e.Content, &p); err != nil {
			return fmt.Errorf("%s %s: got %d %.300s, want a problem: %w", e.Method, e.Target, e.Status, e.Content, err)
		}
	} else {
		want = want[:1]
	}
	got := []string{strconv.Itoa(e.Status), p.Code, p.Field}
	for i, w := range want {
		if got[i] != w {
			return fmt.Errorf("%s %s: got %d %.500s, want %s", e.Method, e.Target, e.Status, e.Content, strings.Join(want, " "))
		}
	}
	return nil
}

// cmdJSON looks into the last answer, or keeps a part of it in a variable. A path
// is names and numbers with dots between them; the value is a regular expression
// for the whole of what stands there. The name len in a list is its length. Of an
// answer of lines, the first number is the line's.
func cmdJSON(ts *testscript.TestScript, neg bool, args []string) {
	s := of(ts)
	if len(args) < 2 || len(args) > 3 {
		usage(ts, "json PATH VALUE | json PATH -> NAME")
	}
	got, err := lookInto(s.last.Content, args[0])
	if err != nil {
		s.fail(ts, "%s in %.500s: %v", args[0], s.last.Content, err)
	}
	if args[1] == "->" {
		ts.Setenv(args[2], got)
		return
	}
	ok, err := regexp.MatchString("^(?:"+args[1]+")$", got)
	ts.Check(err)
	if ok == neg {
		s.fail(ts, "%s is %s, want %s; in %.500s", args[0], got, args[1], s.last.Content)
	}
}

// cmdHeader keeps a header of the last answer in a variable.
func cmdHeader(ts *testscript.TestScript, neg bool, args []string) {
	s := of(ts)
	if neg || len(args) != 3 || args[1] != "->" {
		usage(ts, "header NAME -> VARIABLE")
	}
	value := s.last.Answer.Get(args[0])
	if value == "" {
		s.fail(ts, "no header %s", args[0])
	}
	ts.Setenv(args[2], value)
}

func lookInto(text []byte, path string) (string, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var all []any
	for dec.More() {
		var v any
		if err := dec.Decode(&v); err != nil {
			return "", err
		}
		all = append(all, v)
	}
	var v any = all
	if len(all) == 1 {
		v = all[0]
	}
	for name := range strings.SplitSeq(path, ".") {
		var err error
		if v, err = part(v, name); err != nil {
			return "", err
		}
	}
	if text, ok := v.(string); ok {
		return text, nil
	}
	b, err := json.Marshal(v)
	return string(b), err
}

func part(v any, name string) (any, error) {
	switch v := v.(type) {
	case map[string]any:
		sub, ok := v[name]
		if !ok {
			return nil, fmt.Errorf("no %q", name)
		}
		return sub, nil
	case []any:
		if name == "len" {
			return len(v), nil
		}
		i, err := strconv.Atoi(name)
		if err != nil || i < 0 || i >= len(v) {
			return nil, fmt.Errorf("no %q in a list of %d", name, len(v))
		}
		return v[i], nil
	}
	return nil, fmt.Errorf("no %q in %v", name, v)
}
