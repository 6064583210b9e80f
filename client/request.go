// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/rawblockd/rawblockd/api"
)

// do sends a request and returns a 2xx answer, whose body the caller closes.
func (c *Client) do(req *http.Request) (*http.Response, error) {
	op := req.Method + " " + req.URL.EscapedPath()
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s at %s: %w", op, c.addr, plain(err))
	}
	if resp.StatusCode/100 != 2 {
		return nil, c.refusal(op, resp)
	}
	return resp, nil
}

// plain takes off the *url.Error, which would name an address that the user
// never gave.
func plain(err error) error {
	if u, ok := err.(*url.Error); ok {
		return u.Err
	}
	return err
}

func (c *Client) request(ctx context.Context, method, path string, query url.Values, body io.Reader) (*http.Request, error) {
	u := c.base + path
	if len(query) > 0 {
		u += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, u, body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if c.auth != "" {
		req.Header.Set("Authorization", c.auth)
	}
	return req, nil
}

// call sends in as JSON (nil: no body) and decodes the answer into out.
func (c *Client) call(ctx context.Context, method, path string, query url.Values, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
		body = bytes.NewReader(text)
	}
	req, err := c.request(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	if in != nil {
		req.Header.Set("Content-Type", api.MediaJSON)
	}
	resp, err := c.do(req)
	if err != nil {
		return err
	}
	return c.decode(resp, out)
}

// decode reads the answer to its end, so that its connection can be used again.
func (c *Client) decode(resp *http.Response, out any) error {
	defer func() { _ = resp.Body.Close() }() // reading it has said all there is
	err := json.NewDecoder(resp.Body).Decode(out)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
	}
	if err != nil {
		r := resp.Request
		return fmt.Errorf("%s %s at %s: read the answer: %w", r.Method, r.URL.EscapedPath(), c.addr, err)
	}
	return nil
}

// batch returns what every batch request begins with; the context's deadline
// goes along, so that the daemon does not start what nobody waits for.
func (c *Client) batch(ctx context.Context, keys []string) api.Batch {
	if keys == nil {
		keys = []string{}
	}
	return api.Batch{Namespace: c.ns, Keys: keys, DeadlineMS: deadlineMS(ctx)}
}

// deadlineMS returns what is left until the context's deadline; 0: it has none.
func deadlineMS(ctx context.Context) int64 {
	at, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return min(max(time.Until(at).Milliseconds(), 1), api.MaxMillis)
}
