// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/rawblockd/rawblockd/api"
)

// Found is the answer to a compact lookup.
type Found struct {
	Keys       int        // how many were asked for
	Hits       int        // how many are stored
	PrefixHits int        // leading run of hits
	Lease      string     // id; empty where none was taken
	Bits       api.Bitmap // one for each key, in the order asked for
}

// LookupBits says which keys are there, in the compact form: a line for each
// key, a bit for each answer. Why a key is not there it does not say. A key that
// is no key is a miss.
func (c *Client) LookupBits(ctx context.Context, keys []string, o LookupOptions) (Found, error) {
	query := url.Values{"namespace": {c.ns}}
	if o.Prefix {
		query.Set("prefix", "true")
	}
	if o.Lease != nil {
		l, err := o.Lease.wire()
		if err != nil {
			return Found{}, err
		}
		query.Set("lease_ttl_ms", strconv.FormatInt(l.TTLMS, 10)) // though 0: it asks for the lease
		if l.Owner != "" {
			query.Set("lease_owner", l.Owner)
		}
	}
	if ms := deadlineMS(ctx); ms > 0 {
		query.Set("deadline_ms", strconv.FormatInt(ms, 10))
	}
	size := len(keys)
	for _, k := range keys {
		size += len(k)
	}
	body := api.AppendKeyList(make([]byte, 0, size), keys)
	req, err := c.request(ctx, http.MethodPost, "/v1/batch/lookup", query, bytes.NewReader(body))
	if err != nil {
		return Found{}, err
	}
	req.Header.Set("Content-Type", api.MediaText)
	req.Header.Set("Accept", api.MediaOctets)
	resp, err := c.do(req)
	if err != nil {
		return Found{}, err
	}
	defer func() { _ = resp.Body.Close() }() // reading it says all there is
	f, err := readFound(resp, len(keys))
	if err != nil {
		return Found{}, fmt.Errorf("lookup at %s: %w", c.addr, err)
	}
	return f, nil
}

// readFound reads a bitmap and makes sure that it answers as many keys as asked.
func readFound(resp *http.Response, keys int) (Found, error) {
	f := Found{Keys: keys, Lease: resp.Header.Get(api.HeaderLease), Bits: api.NewBitmap(keys)}
	var err error
	number := func(header string) int {
		n, bad := strconv.Atoi(resp.Header.Get(header))
		if bad != nil && err == nil {
			err = fmt.Errorf("%s: %w", header, bad)
		}
		return n
	}
	answered := number(api.HeaderKeys)
	f.Hits, f.PrefixHits = number(api.HeaderHits), number(api.HeaderPrefixHits)
	switch {
	case err != nil:
		return Found{}, err
	case answered != keys:
		return Found{}, fmt.Errorf("an answer about %d keys, asked about %d", answered, keys)
	}
	if _, err := io.ReadFull(resp.Body, f.Bits); err != nil {
		return Found{}, fmt.Errorf("read the bitmap: %w", err)
	}
	if n, err := resp.Body.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		return Found{}, fmt.Errorf("the bitmap does not end after %d bytes: %v", len(f.Bits), err)
	}
	return f, nil
}
