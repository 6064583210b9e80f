// SPDX-License-Identifier: Apache-2.0

package server

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strconv"

	"github.com/rawblockd/rawblockd/api"
)

// openapi sends the contract that this server keeps to. It is large and changes
// with the program only, so it has an ETag.
func (s *Server) openapi(x *exchange, r *http.Request) error {
	if err := newQuery(r).end(); err != nil {
		return err
	}
	doc := api.OpenAPI()
	sum := sha256.Sum256(doc)
	tag := fmt.Sprintf(`"%x"`, sum[:16])
	x.Header().Set("ETag", tag)
	if tagged(r.Header.Values("If-None-Match"), tag) {
		x.WriteHeader(http.StatusNotModified)
		return nil
	}
	x.Header().Set("Content-Type", api.MediaJSON)
	x.Header().Set("Content-Length", strconv.Itoa(len(doc)))
	_, err := x.Write(doc)
	return err
}
