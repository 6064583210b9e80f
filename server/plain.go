// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"net/http"

	"github.com/rawblockd/rawblockd/api"
)

// plain adapts a handler that answers all by itself, other than with an error:
// that becomes a problem like all others.
func plain(h http.Handler) handler {
	return func(x *exchange, r *http.Request) error {
		w := &plainWriter{exchange: x}
		h.ServeHTTP(w, r)
		if w.refused == 0 {
			return nil
		}
		for _, name := range []string{"X-Go-Pprof", "X-Content-Type-Options"} {
			x.Header().Del(name)
		}
		why := clip(string(bytes.TrimSpace(w.why)))
		switch {
		case w.refused == http.StatusNotFound:
			return api.NewProblem(w.refused, api.CodeNotFound, "path", "%s", why)
		case w.refused < http.StatusInternalServerError:
			return api.NewProblem(w.refused, api.CodeInvalidField, "query", "%s", why)
		}
		return api.NewProblem(w.refused, api.CodeInternal, "", "%s", why)
	}
}

// plainWriter keeps an error to itself, with what is said about it.
type plainWriter struct {
	*exchange
	refused int // the code of the error
	why     []byte
}

// WriteHeader begins the response, unless it is an error.
func (w *plainWriter) WriteHeader(code int) {
	if code >= http.StatusBadRequest && w.code == 0 {
		w.refused = code
		return
	}
	w.exchange.WriteHeader(code)
}

// Write sends p, or keeps it as the reason of the error.
func (w *plainWriter) Write(p []byte) (int, error) {
	if w.refused == 0 {
		return w.exchange.Write(p)
	}
	w.why = append(w.why, p[:min(len(p), page-len(w.why))]...)
	return len(p), nil
}
