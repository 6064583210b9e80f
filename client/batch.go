// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"time"

	"github.com/rawblockd/rawblockd/api"
)

// Lease asks for pins.
type Lease struct {
	TTL   time.Duration // 0: the daemon's default
	Owner string        // a label for people
}

func (l Lease) wire() (api.LeaseRequest, error) {
	ms, err := ttlMS(l.TTL)
	if err != nil {
		return api.LeaseRequest{}, fmt.Errorf("lease: %w", err)
	}
	return api.LeaseRequest{TTLMS: ms, Owner: l.Owner}, nil
}

// LookupOptions change what Lookup does.
type LookupOptions struct {
	Lease  *Lease // pins the hits
	Prefix bool   // stop at the first miss
}

// Lookup says which keys are there.
func (c *Client) Lookup(ctx context.Context, keys []string, o LookupOptions) (api.LookupResponse, error) {
	in := api.LookupRequest{Batch: c.batch(ctx, keys), Prefix: o.Prefix}
	if o.Lease != nil {
		l, err := o.Lease.wire()
		if err != nil {
			return api.LookupResponse{}, err
		}
		in.Lease = &l
	}
	var out api.LookupResponse
	return out, c.call(ctx, http.MethodPost, "/v1/batch/lookup", nil, in, &out)
}

// Remove removes keys; without force pinned ones stay.
func (c *Client) Remove(ctx context.Context, keys []string, force bool) (api.RemoveResponse, error) {
	in := api.RemoveRequest{Batch: c.batch(ctx, keys), Force: force}
	var out api.RemoveResponse
	return out, c.call(ctx, http.MethodPost, "/v1/batch/remove", nil, in, &out)
}

// Pin takes a lease on keys.
func (c *Client) Pin(ctx context.Context, keys []string, l Lease) (api.PinResponse, error) {
	lease, err := l.wire()
	if err != nil {
		return api.PinResponse{}, err
	}
	in := api.PinRequest{Batch: c.batch(ctx, keys), LeaseRequest: lease}
	var out api.PinResponse
	return out, c.call(ctx, http.MethodPost, "/v1/batch/pin", nil, in, &out)
}

// Unpin releases keys of a lease; nil keys release all of it.
func (c *Client) Unpin(ctx context.Context, lease string, keys []string) (api.UnpinResponse, error) {
	in := api.UnpinRequest{Namespace: c.ns, Lease: lease, Keys: keys, DeadlineMS: deadlineMS(ctx)}
	var out api.UnpinResponse
	return out, c.call(ctx, http.MethodPost, "/v1/batch/unpin", nil, in, &out)
}

// Touch lets keys live for ttl from now on; 0: as long as the namespace says.
func (c *Client) Touch(ctx context.Context, keys []string, ttl time.Duration) (api.TouchResponse, error) {
	ms, err := ttlMS(ttl)
	if err != nil {
		return api.TouchResponse{}, fmt.Errorf("touch: %w", err)
	}
	in := api.TouchRequest{Batch: c.batch(ctx, keys), TTLMS: ms}
	var out api.TouchResponse
	return out, c.call(ctx, http.MethodPost, "/v1/batch/touch", nil, in, &out)
}

// Info says what the daemon is and which limits it has.
func (c *Client) Info(ctx context.Context) (api.Info, error) {
	var out api.Info
	return out, c.call(ctx, http.MethodGet, "/v1/info", nil, nil, &out)
}

// Status says how the daemon is.
func (c *Client) Status(ctx context.Context) (api.StatusReport, error) {
	var out api.StatusReport
	return out, c.call(ctx, http.MethodGet, "/v1/status", nil, nil, &out)
}

// Ready says whether the daemon serves, and if not how far its recovery is. A
// daemon that does not serve yet answers 503 with the same body, so that is no
// error here.
func (c *Client) Ready(ctx context.Context) (api.Ready, error) {
	req, err := c.request(ctx, http.MethodGet, "/readyz", nil, nil)
	if err != nil {
		return api.Ready{}, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return api.Ready{}, fmt.Errorf("GET /readyz at %s: %w", c.addr, plain(err))
	}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if media != api.MediaJSON || resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusServiceUnavailable {
		return api.Ready{}, c.refusal("GET /readyz", resp)
	}
	var out api.Ready
	return out, c.decode(resp, &out)
}
