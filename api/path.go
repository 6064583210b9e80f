// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/http"
	"net/url"
	"strings"
)

// CheckPath refuses an escaped path that a router or a proxy might read as
// another one: not starting with a slash, with an empty segment (an empty key
// among them, so a trailing slash too) or with a dot segment, escaped or not. It
// returns a *Problem with code unclean_path.
func CheckPath(escaped string) error {
	if !strings.HasPrefix(escaped, "/") {
		return unclean(escaped, "it does not begin with /")
	}
	if escaped == "/" {
		return nil
	}
	for seg := range strings.SplitSeq(escaped[1:], "/") {
		dec, err := url.PathUnescape(seg)
		switch {
		case err != nil:
			return unclean(escaped, "a percent escape is broken")
		case dec == "":
			return unclean(escaped, "a segment is empty; an empty key is no key")
		case dec == "." || dec == "..":
			return unclean(escaped, "a segment is a dot segment; reach such a key through /v1/batch")
		}
	}
	return nil
}

func unclean(path, why string) *Problem {
	if len(path) > 200 {
		path = path[:200] + "…"
	}
	return NewProblem(http.StatusBadRequest, CodeUncleanPath, "path", "%q: %s", path, why)
}

// ObjectPath returns the escaped path of one key. Slashes in the key become
// %2F. A key that is a dot segment has no path: use a batch.
func ObjectPath(namespace, key string) string {
	return "/v1/kv/" + url.PathEscape(namespace) + "/" + url.PathEscape(key)
}

// NamespacePath returns the escaped path that lists a namespace.
func NamespacePath(namespace string) string {
	return "/v1/kv/" + url.PathEscape(namespace)
}
