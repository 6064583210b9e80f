// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/store"
)

// etag is an object's ETag: what the store calls the entry, no two of which are
// ever called the same.
func (o *object) etag(gen uint64) string { return `"` + o.st.Tag(gen) + `"` }

// describe sets the headers of an object.
func (x *exchange) describe(bytes int64, etag string) {
	h := x.Header()
	h.Set("ETag", etag)
	h.Set("Content-Type", api.MediaOctets)
	h.Set("Content-Length", strconv.FormatInt(bytes, 10))
}

// tagged tells whether own is one of the tags of If-None-Match. A list is cut at
// its commas: none of our tags has one.
func tagged(tags []string, own string) bool {
	for _, list := range tags {
		for tag := range strings.SplitSeq(list, ",") {
			tag = strings.TrimSpace(tag)
			if tag == "*" || strings.TrimPrefix(tag, "W/") == own {
				return true
			}
		}
	}
	return false
}

// unchanged answers that the client has the object already.
func (x *exchange) unchanged(etag string) error {
	x.Header().Set("ETag", etag)
	x.WriteHeader(http.StatusNotModified)
	return nil
}

func lookOne(ctx context.Context, st *store.Store, ns, key string) (store.KeyResult, error) {
	found, err := st.Lookup(ctx, ns, []string{key}, store.LookupOptions{})
	if err != nil {
		return store.KeyResult{}, err
	}
	return found.Results[0], nil
}
