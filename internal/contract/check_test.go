// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"net/http"
	"strings"
	"testing"

	"github.com/rawblockd/rawblockd/api"
)

func document(t *testing.T) *Document {
	t.Helper()
	d, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func header(nameValues ...string) http.Header {
	h := http.Header{api.HeaderInstance: {"i"}}
	for i := 0; i < len(nameValues); i += 2 {
		h.Set(nameValues[i], nameValues[i+1])
	}
	return h
}

// lookup is an exchange without a fault.
func lookup() Exchange {
	return Exchange{
		Listener: "unix", Method: "POST", Target: "/v1/batch/lookup", Header: header("Content-Type", api.MediaJSON),
		Body: []byte(`{"namespace":"default","keys":["a"]}`), Whole: true,
		Status: 200, Answer: header("Content-Type", api.MediaJSON),
		Content: []byte(`{"results":[{"status":"ok","bytes":5}],"hits":1,"prefix_hits":1}` + "\n"), Complete: true,
	}
}

// load is one whose answer is frames.
func loaded() Exchange {
	e := lookup()
	e.Target, e.Answer = "/v1/batch/load", header("Content-Type", api.MediaFrames)
	e.Content = []byte(`{"key":"a","status":"ok","bytes":3}` + "\nabc" + `{"key":"b","status":"missing","bytes":0}` + "\n")
	return e
}

// refusal is one that was refused.
func refusal(code string) Exchange {
	e := lookup()
	e.Status, e.Answer = 400, header("Content-Type", api.MediaProblem)
	e.Content = []byte(`{"type":"about:blank","title":"t","status":400,"code":"` + code + `","field":"lease.ttl_ms"}`)
	return e
}

func TestCheck(t *testing.T) {
	doc := document(t)
	for name, c := range map[string]struct {
		from   Exchange
		change func(e *Exchange)
		want   string // empty: no fault
	}{
		"whole":                     {lookup(), func(*Exchange) {}, ""},
		"unknown status":            {lookup(), func(e *Exchange) { e.Status = 418 }, "does not have this status"},
		"no instance":               {lookup(), func(e *Exchange) { e.Answer.Del(api.HeaderInstance) }, api.HeaderInstance},
		"unknown header":            {lookup(), func(e *Exchange) { e.Answer.Set("X-More", "1") }, "X-More"},
		"bad header":                {lookup(), func(e *Exchange) { e.Answer.Set("Rawblockd-Hits", "some") }, "Rawblockd-Hits"},
		"other media type":          {lookup(), func(e *Exchange) { e.Answer.Set("Content-Type", "text/html") }, "text/html"},
		"other length":              {lookup(), func(e *Exchange) { e.Answer.Set("Content-Length", "3") }, "Content-Length 3"},
		"field more":                {lookup(), swap(`"hits":1`, `"hits":1,"hats":1`), "hats"},
		"field less":                {lookup(), swap(`"hits":1,`, ``), "hits"},
		"field of another kind":     {lookup(), swap(`"hits":1`, `"hits":"1"`), "hits"},
		"unknown word":              {lookup(), swap(`"status":"ok"`, `"status":"fine"`), "status"},
		"word of another operation": {lookup(), swap(`"status":"ok"`, `"status":"exists"`), "status"},
		"not JSON":                  {lookup(), func(e *Exchange) { e.Content = []byte("ok") }, "decode"},
		"foreign listener":          {lookup(), func(e *Exchange) { e.Listener = "admin" }, "no operation"},
		"unknown path":              {lookup(), func(e *Exchange) { e.Target = "/v1/batch/look" }, "no operation"},
		"method":                    {lookup(), func(e *Exchange) { e.Method = "GET" }, "no operation"},
		"request: unknown field":    {lookup(), func(e *Exchange) { e.Body = []byte(`{"namespace":"n","keys":[],"x":1}`) }, "does not allow it"},
		"request: unknown parameter": {
			lookup(), func(e *Exchange) { e.Target += "?x=1" }, `parameter "x"`,
		},
		"request: parameter of the other form": {
			lookup(), func(e *Exchange) { e.Target += "?prefix=true" }, "with another media type",
		},
		"request: no media type":    {lookup(), func(e *Exchange) { e.Header.Del("Content-Type") }, "does not allow it"},
		"frames":                    {loaded(), func(*Exchange) {}, ""},
		"frames: cut off":           {loaded(), swap("abc", "ab"), "line 1"},
		"frames: last one cut off":  {loaded(), func(e *Exchange) { e.Content = e.Content[:38] }, "cut off"},
		"frames: cut by the reader": {loaded(), func(e *Exchange) { e.Content, e.Complete = e.Content[:38], false }, ""},
		"frames: no status":         {loaded(), swap(`"status":"ok",`, ``), "LoadFrame"},
		"refused for no reason":     {refusal(api.CodeInvalidField), func(*Exchange) {}, "and the document allows it"},
		"refused with reason": {refusal(api.CodeInvalidField), func(e *Exchange) {
			e.Body = []byte(`{"namespace":"n","keys":[],"lease":{"ttl_ms":-1}}`)
		}, ""},
		"code of another status":      {refusal(api.CodeNotReady), func(*Exchange) {}, "code"},
		"no Retry-After":              {refusal(api.CodeNotReady), func(e *Exchange) { e.Status = 503; swap("400", "503")(e) }, "Retry-After"},
		"HEAD with a body":            {lookup(), func(e *Exchange) { e.Method, e.Target = "HEAD", "/healthz" }, "a body where there can be none"},
		"unreadable":                  {refusal(api.CodeMalformedRequest), func(e *Exchange) { e.Method = "" }, ""},
		"unreadable, other status":    {refusal(api.CodeMalformedRequest), func(e *Exchange) { e.Method, e.Status = "", 402 }, "no refusal either"},
		"method, the methods allowed": {notAllowed(), func(*Exchange) {}, ""},
		"method, other ones allowed":  {notAllowed(), func(e *Exchange) { e.Answer.Set("Allow", "GET") }, "Allow"},
		"a key that is a route":       {object(), func(*Exchange) {}, ""},
		"a key that is none":          {object(), func(e *Exchange) { e.Target = "/v1/kv/default/a/b" }, "no operation"},
	} {
		t.Run(name, func(t *testing.T) {
			e := c.from
			c.change(&e)
			err := doc.Check(e)
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want a fault with %q", err, c.want)
			}
		})
	}
}

func swap(old, by string) func(e *Exchange) {
	return func(e *Exchange) { e.Content = []byte(strings.Replace(string(e.Content), old, by, 1)) }
}

func notAllowed() Exchange {
	e := refusal(api.CodeMethod)
	e.Method, e.Target, e.Status = "PATCH", "/v1/kv/n/clear", 405
	swap("400", "405")(&e)
	e.Answer.Set("Allow", "DELETE, GET, HEAD, POST, PUT")
	return e
}

func object() Exchange {
	return Exchange{
		Listener: "http", Method: "GET", Target: "/v1/kv/a%2Fb/clear", Whole: true, Status: 200, Complete: true,
		Answer: header("Content-Type", api.MediaOctets, "ETag", `"1f"`), Content: []byte("bytes"),
	}
}
