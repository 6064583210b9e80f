// SPDX-License-Identifier: Apache-2.0

package server

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/store"
)

// lookupRequest reads a lookup in either of its forms: JSON, or a key a line
// with everything else in the query.
func (s *Server) lookupRequest(x *exchange, r *http.Request) (api.LookupRequest, *store.Store, error) {
	kind, err := media(r, api.MediaJSON, api.MediaText)
	if err != nil {
		return api.LookupRequest{}, nil, err
	}
	if kind == api.MediaJSON {
		return call(s, x, r, api.DecodeLookup)
	}
	req, err := compactQuery(r)
	if err != nil {
		return req, nil, err
	}
	body, err := s.readWhole(x, r, req.DeadlineMS)
	if err != nil {
		return req, nil, err
	}
	if req.Keys, err = api.DecodeKeyList(body, s.o.Limits.BatchKeys); err != nil {
		return req, nil, err
	}
	st, err := s.admit(x, req)
	return req, st, err
}

// compactQuery reads what a compact lookup says beside its keys. Whoever names a
// lease's time or its owner asks for a lease.
func compactQuery(r *http.Request) (api.LookupRequest, error) {
	var req api.LookupRequest
	if err := utf8Text(r); err != nil {
		return req, err
	}
	q := newQuery(r)
	req.Namespace, req.Prefix = q.text("namespace"), q.boolean("prefix")
	if q.given("lease_ttl_ms") || q.given("lease_owner") {
		req.Lease = &api.LeaseRequest{TTLMS: q.number("lease_ttl_ms", 0, api.MaxMillis), Owner: q.text("lease_owner")}
		if len(req.Lease.Owner) > api.MaxOwnerBytes {
			q.fail("lease_owner", "more than %d bytes", api.MaxOwnerBytes)
		}
	}
	req.DeadlineMS = q.deadline()
	if err := q.end(); err != nil {
		return req, err
	}
	if req.Namespace == "" {
		return req, api.MissingNamespace()
	}
	return req, nil
}

// utf8Text refuses text that says that it is no UTF-8: its bytes would be other
// keys.
func utf8Text(r *http.Request) error {
	_, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch charset := params["charset"]; strings.ToLower(charset) {
	case "", "utf-8", "us-ascii":
		return nil
	default:
		return api.NewProblem(http.StatusUnsupportedMediaType, api.CodeMediaType, "Content-Type", "charset %q; send UTF-8", clip(charset))
	}
}

// prefers tells whether the answer shall be special, which the client has to
// name for that, rather than usual.
func prefers(r *http.Request, special, usual string) bool {
	want := quality(r, special)
	return want > 0 && want >= quality(r, usual)
}

// quality is the weight that a request's Accept gives to a media type by its
// name; 0 where it does not name it.
func quality(r *http.Request, media string) float64 {
	best := 0.0
	for _, list := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(list, ",") {
			name, params, err := mime.ParseMediaType(part)
			if err != nil || name != media {
				continue
			}
			weight := 1.0
			if q, ok := params["q"]; ok {
				if weight, err = strconv.ParseFloat(q, 64); err != nil {
					continue
				}
			}
			best = max(best, weight)
		}
	}
	return best
}

// bits answers a lookup with a bit for each key.
func (x *exchange) bits(found store.LookupResult) error {
	bits := api.NewBitmap(len(found.Results))
	for i, k := range found.Results {
		if k.Status == store.OK {
			bits.Set(i)
		}
	}
	h := x.Header()
	h.Set(api.HeaderKeys, strconv.Itoa(len(found.Results)))
	h.Set(api.HeaderHits, strconv.Itoa(found.Hits))
	h.Set(api.HeaderPrefixHits, strconv.Itoa(found.PrefixHits))
	if found.Lease != nil {
		h.Set(api.HeaderLease, found.Lease.ID)
	}
	h.Set("Content-Type", api.MediaOctets)
	h.Set("Content-Length", strconv.Itoa(len(bits)))
	x.WriteHeader(http.StatusOK)
	_, err := x.Write(bits)
	return err
}
