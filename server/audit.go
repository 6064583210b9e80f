// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"net/http"
)

// audit logs a change that somebody may have to answer for: what was done, to
// what, and by whom. One whose outcome is not known, or that failed half way, is
// logged with its error.
func (s *Server) audit(x *exchange, r *http.Request, what string, err error, attrs ...any) {
	line := append([]any{"audit", true, "what", what, "who", cmp.Or(x.access.name, remote(r))}, attrs...)
	if err != nil {
		line = append(line, "err", err)
	}
	s.o.Log.Info("audit", line...)
}
