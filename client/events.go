// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/rawblockd/rawblockd/api"
)

// EventOptions say which events a stream has.
type EventOptions struct {
	All bool // of all namespaces that the caller may use; else of the client's
	// Since and Instance are the Seq of the last event taken and the Instance of
	// the stream it came from, which was about the same namespaces; zero values begin
	// with a snapshot.
	Since    uint64
	Instance string
	Once     bool // end after what there is, instead of waiting for more
}

// Events is a stream of events. It belongs to one goroutine.
type Events struct {
	Instance string // of the daemon: Seq means nothing to another one
	addr     string
	body     io.Closer
	lines    *json.Decoder
}

// Events asks for the stream of events. It lasts until ctx or the daemon ends;
// the caller closes it.
func (c *Client) Events(ctx context.Context, o EventOptions) (*Events, error) {
	query := url.Values{}
	if !o.All {
		query.Set("namespace", c.ns)
	}
	if o.Since > 0 {
		query.Set("since", strconv.FormatUint(o.Since, 10))
		query.Set("instance", o.Instance)
	}
	if o.Once {
		query.Set("follow", "false")
	}
	req, err := c.request(ctx, http.MethodGet, "/v1/events", query, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", api.MediaNDJSON)
	resp, err := c.do(req)
	if err != nil {
		return nil, err
	}
	return &Events{Instance: resp.Header.Get(api.HeaderInstance), addr: c.addr, body: resp.Body, lines: json.NewDecoder(resp.Body)}, nil
}

// Next returns the next event; io.EOF where the daemon ended the stream, because it
// stops or because the token may see something else now. Events of the kind idle, which say that nothing happened for a while, come too.
func (e *Events) Next() (api.Event, error) {
	var ev api.Event
	err := e.lines.Decode(&ev)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("events at %s: %w", e.addr, err)
	}
	return ev, err
}

// Close ends the stream.
func (e *Events) Close() error { return e.body.Close() }
