// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/store"
)

// explainOne says why one key is there or not. That it is not is no error here.
func (s *Server) explainOne(x *exchange, r *http.Request) error {
	o, err := s.object(x, r, func(*query) {})
	if err != nil {
		return err
	}
	defer o.done()
	e, err := o.st.Explain(o.ctx, o.namespace, o.key)
	if err != nil {
		return err
	}
	res := api.Explanation{
		Key: o.key, Status: word(e.Status), Reason: e.Reason.String(), Detail: e.Detail, At: fromMillis(e.At),
		Bytes: e.Bytes, SlotBytes: e.SlotBytes,
		StoredAt: fromMillis(e.StoredAt), ExpiresAt: fromMillis(e.ExpiresAt), Pinned: e.Pinned,
	}
	if e.Err != nil {
		res.Detail += ": " + x.tell(e.Err)
	}
	if x.access.admin {
		locate(&res, e)
	}
	return x.json(res)
}

// locate says where an entry lies, and as which. Generations and slots count for
// all namespaces together, so they tell how much others store, and where.
func locate(res *api.Explanation, e store.Explanation) {
	res.Slab, res.Generation = e.Slab, e.Generation
	if e.Slab != "" {
		res.Slot = &e.Slot
	}
}
