// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/config"
)

// TestLargestJSON: config says itself how large a JSON body can be, for it may
// not import package api.
func TestLargestJSON(t *testing.T) {
	for _, keys := range []int{1, 16384, 1 << 20} {
		if got, want := int64(config.Limits{BatchKeys: keys}.LargestJSON()), api.MaxJSONBody(keys); got != want {
			t.Errorf("%d keys: config says %d bytes, api %d", keys, got, want)
		}
	}
}
