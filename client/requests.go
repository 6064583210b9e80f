// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"

	"github.com/rawblockd/rawblockd/api"
)

// Requests lists the requests that the daemon is answering, the oldest first, and
// where each of them is. Like all about the whole it is answered on the unix
// socket and on the admin listener.
func (c *Client) Requests(ctx context.Context) (api.RequestsResponse, error) {
	var out api.RequestsResponse
	return out, c.call(ctx, http.MethodGet, "/v1/requests", nil, nil, &out)
}
