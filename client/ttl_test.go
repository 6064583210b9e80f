// SPDX-License-Identifier: Apache-2.0

package client

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestNegativeTTL: it is refused before anything is sent or pulled.
func TestNegativeTTL(t *testing.T) {
	h := func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") }
	serve(t, h, func(t *testing.T, c *Client) {
		ctx, keys := t.Context(), []string{"k"}
		for _, ttl := range []time.Duration{-1, -5 * time.Second} {
			lease := Lease{TTL: ttl}
			_, put := c.Put(ctx, "k", strings.NewReader("x"), 1, PutOptions{TTL: ttl})
			_, store := c.Store(ctx, slices.Values([]Item{{Key: "k", Bytes: 1, Body: strings.NewReader("x")}}), StoreOptions{TTL: ttl})
			_, pin := c.Pin(ctx, keys, lease)
			_, lookup := c.Lookup(ctx, keys, LookupOptions{Lease: &lease})
			for name, err := range map[string]error{"put": put, "store": store, "pin": pin, "lookup": lookup} {
				if !errors.Is(err, ErrTTL) || !strings.Contains(err.Error(), ttl.String()) {
					t.Errorf("%s with %v: got %v, want ErrTTL", name, ttl, err)
				}
			}
		}
	})
}

func TestShortTTLIsNoDefault(t *testing.T) {
	for ttl, want := range map[time.Duration]int64{
		0: 0, 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2, 1500 * time.Millisecond: 1500,
	} {
		if got, err := ttlMS(ttl); got != want || err != nil {
			t.Errorf("ttlMS(%v) = %d, %v, want %d", ttl, got, err, want)
		}
	}
}
