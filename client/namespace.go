// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"

	"github.com/rawblockd/rawblockd/api"
)

// Namespaces lists the namespaces that the caller may use, with what they use.
func (c *Client) Namespaces(ctx context.Context) ([]api.Namespace, error) {
	var out api.NamespacesResponse
	err := c.call(ctx, http.MethodGet, "/v1/namespaces", nil, nil, &out)
	return out.Namespaces, err
}

// Settings returns the settings and the usage of c's namespace.
func (c *Client) Settings(ctx context.Context) (api.Namespace, error) {
	var out api.Namespace
	return out, c.call(ctx, http.MethodGet, api.SettingsPath(c.ns), nil, nil, &out)
}

// PutSettings changes the settings of c's namespace, which it makes if there is
// none. What is nil in r keeps its value.
func (c *Client) PutSettings(ctx context.Context, r api.NamespaceRequest) (api.PutNamespaceResponse, error) {
	var out api.PutNamespaceResponse
	return out, c.call(ctx, http.MethodPut, api.SettingsPath(c.ns), nil, r, &out)
}

// DeleteNamespace ends c's namespace, which must hold nothing any more.
func (c *Client) DeleteNamespace(ctx context.Context) error {
	var out api.DeleteNamespaceResponse
	return c.call(ctx, http.MethodDelete, api.SettingsPath(c.ns), nil, nil, &out)
}

// Clear removes every entry of c's namespace that no lease protects.
func (c *Client) Clear(ctx context.Context) (api.ClearResponse, error) {
	in := api.ClearRequest{Confirm: c.ns, DeadlineMS: deadlineMS(ctx)}
	var out api.ClearResponse
	return out, c.call(ctx, http.MethodPost, api.ClearPath(c.ns), nil, in, &out)
}

// Explain says what became of key, as far as the daemon remembers. That it is
// not stored is no error.
func (c *Client) Explain(ctx context.Context, key string) (api.Explanation, error) {
	var out api.Explanation
	return out, c.call(ctx, http.MethodGet, api.ExplainPath(c.ns, key), nil, nil, &out)
}
