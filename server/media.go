// SPDX-License-Identifier: Apache-2.0

package server

import (
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/rawblockd/rawblockd/api"
)

// media returns a request's media type if it is one of allowed; "" among them
// stands for a request that names none. Its body must come as it is: stored
// encoded, it would be given out as something it is not.
func media(r *http.Request, allowed ...string) (string, error) {
	if codings := r.Header.Values("Content-Encoding"); encoded(codings) {
		return "", api.NewProblem(http.StatusUnsupportedMediaType, api.CodeContentEncoding, "Content-Encoding", "%q; send the bytes as they are",
			clip(strings.Join(codings, ", ")))
	}
	values := r.Header.Values("Content-Type")
	kind := ""
	if len(values) > 0 {
		// Parameters are of no interest but must not hide what the type is.
		var err error
		if kind, _, err = mime.ParseMediaType(values[0]); err != nil || len(values) > 1 {
			kind = "?"
		}
	}
	if slices.Contains(allowed, kind) {
		return kind, nil
	}
	named := slices.DeleteFunc(allowed, func(a string) bool { return a == "" })
	return "", api.NewProblem(http.StatusUnsupportedMediaType, api.CodeMediaType, "Content-Type", "%q; send %s",
		clip(strings.Join(values, ", ")), strings.Join(named, " or "))
}

// encoded tells whether a Content-Encoding names any coding but identity.
func encoded(values []string) bool {
	for _, list := range values {
		for coding := range strings.SplitSeq(list, ",") {
			if coding = strings.TrimSpace(coding); coding != "" && !strings.EqualFold(coding, "identity") {
				return true
			}
		}
	}
	return false
}
