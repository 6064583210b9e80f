// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"

	"github.com/rawblockd/rawblockd/api"
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
		Slab: e.Slab, Bytes: e.Bytes, SlotBytes: e.SlotBytes, Generation: e.Generation,
		StoredAt: fromMillis(e.StoredAt), ExpiresAt: fromMillis(e.ExpiresAt), Pinned: e.Pinned,
	}
	if e.Slab != "" {
		res.Slot = &e.Slot
	}
	return x.json(res)
}
