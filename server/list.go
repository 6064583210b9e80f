// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"time"

	"github.com/rawblockd/rawblockd/api"
)

// Pages of a listing, in entries.
const (
	listDefault = 1000
	listMax     = 10000
)

// list answers a page of a namespace's entries, in slot order.
func (s *Server) list(x *exchange, r *http.Request) error {
	q := newQuery(r)
	limit, cursor, deadline := q.number("limit", 1, listMax), q.text("cursor"), q.deadline()
	if err := q.end(); err != nil {
		return err
	}
	if limit == 0 {
		limit = listDefault
	}
	if err := x.reach(r.PathValue("namespace")); err != nil {
		return err
	}
	st, err := s.ready()
	if err != nil {
		return err
	}
	ctx, cancel := s.within(x, r, deadline)
	defer cancel()
	entries, next, err := st.List(ctx, r.PathValue("namespace"), cursor, int(limit))
	if err != nil {
		return err
	}
	res := api.ListResponse{Entries: make([]api.ListEntry, len(entries)), Cursor: next}
	for i, e := range entries {
		res.Entries[i] = api.ListEntry{Key: e.Key, Bytes: e.Bytes, StoredAt: fromMillis(e.StoredAt), ExpiresAt: fromMillis(e.ExpiresAt), Pinned: e.Pinned}
	}
	return x.json(res)
}

// fromMillis is a row's time; 0, which means never, is the zero time.
func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
