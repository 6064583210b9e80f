// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"net/http"

	"github.com/rawblockd/rawblockd/store"
)

// AuditMessage is the message of audit lines, of level info.
const AuditMessage = "audit"

// audit logs a change that somebody may have to answer for: what was done, to
// what, and by whom. One whose outcome is not known, or that failed half way, is
// logged with its error.
func (s *Server) audit(x *exchange, r *http.Request, what string, err error, attrs ...any) {
	line := append([]any{"audit", true, "what", what, "who", cmp.Or(x.access.name, remote(r))}, attrs...)
	if err != nil {
		line = append(line, "err", err)
	}
	s.o.Log.Info(AuditMessage, line...)
}

// auditForced logs a store that replaced entries although leases protected them,
// once for all of its keys.
func (s *Server) auditForced(x *exchange, r *http.Request, ns string, results []store.StoreResult) {
	forced := 0
	var failed error // the last one whose outcome is not known
	for _, k := range results {
		if k.Forced {
			forced++
			failed = cmp.Or(k.Err, failed)
		}
	}
	if forced > 0 {
		s.audit(x, r, "forced overwrite", failed, "namespace", ns, "keys", len(results), "forced", forced)
	}
}
