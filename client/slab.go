// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/rawblockd/rawblockd/api"
)

// Slabs says how the slabs are. Like all about slabs it is answered on the unix
// socket and on the admin listener.
func (c *Client) Slabs(ctx context.Context) ([]api.SlabStatus, error) {
	var out api.SlabsResponse
	err := c.call(ctx, http.MethodGet, "/v1/slabs", nil, nil, &out)
	return out.Slabs, err
}

// Drain stops stores to a slab; what is on it is served on.
func (c *Client) Drain(ctx context.Context, slab string) (api.SlabStatus, error) {
	var out api.SlabStatus
	return out, c.call(ctx, http.MethodPost, api.SlabPath(slab)+"/drain", nil, nil, &out)
}

// Resume takes Drain back.
func (c *Client) Resume(ctx context.Context, slab string) (api.SlabStatus, error) {
	var out api.SlabStatus
	return out, c.call(ctx, http.MethodPost, api.SlabPath(slab)+"/resume", nil, nil, &out)
}

// Scrub starts a pass over a slab that reads every entry and drops what is bad,
// beside its traffic; Slabs tells how far it is. While one is under way it is an
// *Error with the code scrubbing.
func (c *Client) Scrub(ctx context.Context, slab string) (api.SlabStatus, error) {
	var out api.SlabStatus
	return out, c.call(ctx, http.MethodPost, api.SlabPath(slab)+"/scrub", nil, nil, &out)
}

// SlabMap returns a byte for each of up to count slots of a slab, from slot from
// on (api.SlotFree and so on), and how many slots the slab has. It may be fewer
// than count: at most api.MaxSlabMap at once.
func (c *Client) SlabMap(ctx context.Context, slab string, from, count uint32) (states []byte, total uint32, err error) {
	query := url.Values{"from": {strconv.FormatUint(uint64(from), 10)}, "count": {strconv.FormatUint(uint64(count), 10)}}
	req, err := c.request(ctx, http.MethodGet, api.SlabPath(slab)+"/map", query, nil)
	if err != nil {
		return nil, 0, err
	}
	resp, err := c.do(req)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = resp.Body.Close() }() // reading it says all there is
	n, err := strconv.ParseUint(resp.Header.Get(api.HeaderSlots), 10, 32)
	if err == nil {
		states, err = io.ReadAll(io.LimitReader(resp.Body, int64(count)+1))
	}
	if err == nil && len(states) > int(count) {
		err = fmt.Errorf("more than %d slots", count)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("map of slab %q at %s: %w", slab, c.addr, err)
	}
	return states, uint32(n), nil
}
