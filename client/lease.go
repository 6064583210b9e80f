// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/rawblockd/rawblockd/api"
)

// Leases lists the leases in force, of all namespaces.
func (c *Client) Leases(ctx context.Context) ([]api.Lease, error) {
	var out api.LeasesResponse
	err := c.call(ctx, http.MethodGet, "/v1/leases", nil, nil, &out)
	return out.Leases, err
}

// Lease describes one lease. One that has ended is an *Error with the code
// unknown_lease.
func (c *Client) Lease(ctx context.Context, id string) (api.Lease, error) {
	var out api.Lease
	return out, c.call(ctx, http.MethodGet, api.LeasePath(id), nil, nil, &out)
}

// Renew lets a lease last ttl from now on; 0: as long as it was first given.
func (c *Client) Renew(ctx context.Context, id string, ttl time.Duration) (api.Lease, error) {
	query := url.Values{}
	if err := setTTL(query, ttl); err != nil {
		return api.Lease{}, fmt.Errorf("renew lease %q: %w", id, err)
	}
	var out api.Lease
	return out, c.call(ctx, http.MethodPost, api.LeasePath(id)+"/renew", query, nil, &out)
}

// Release ends a lease, whatever namespace it is in. One that has ended already
// is no error: nothing is released then.
func (c *Client) Release(ctx context.Context, id string) (api.UnpinResponse, error) {
	var out api.UnpinResponse
	return out, c.call(ctx, http.MethodPost, api.LeasePath(id)+"/release", nil, nil, &out)
}

// Stage takes a lease of ttl on key with its payload in the namespace's shared
// segment, waiting up to timeout for room there; 0 takes the daemon's defaults.
func (c *Client) Stage(ctx context.Context, key string, timeout, ttl time.Duration) (api.StagedLease, error) {
	query := url.Values{}
	wait, err := ttlMS(timeout)
	if err == nil && ttl < 0 {
		err = fmt.Errorf("%w: %v", ErrTTL, ttl)
	}
	if err != nil {
		return api.StagedLease{}, fmt.Errorf("stage %q: %w", key, err)
	}
	if wait > 0 {
		query.Set("timeout_ms", strconv.FormatInt(wait, 10))
	}
	if ttl > 0 {
		query.Set("ttl_s", strconv.FormatFloat(ttl.Seconds(), 'f', -1, 64))
	}
	var out api.StagedLease
	return out, c.call(ctx, http.MethodPost, api.LeaseOfKeyPath(c.ns, key), query, nil, &out)
}
