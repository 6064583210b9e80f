// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/http"
	"net/url"
	"strconv"
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
			return unclean(escaped, strconv.Quote(BadEscape(seg))+" is no percent escape; write % itself as %25")
		case dec == "":
			return unclean(escaped, "a segment is empty; an empty key is no key")
		case dec == "." || dec == "..":
			return unclean(escaped, "a segment is a dot segment; reach such a key through /v1/batch")
		}
	}
	return nil
}

// BadEscape returns the first percent sign of s that does not begin an escape,
// with what stands in place of the two hex digits, or "" if there is none.
func BadEscape(s string) string {
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			continue
		}
		if i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2]) {
			return strings.ToValidUTF8(s[i:min(i+3, len(s))], "")
		}
		i += 2
	}
	return ""
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
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

// LeaseOfKeyPath returns the escaped path at which a lease of the staging
// segment is taken on one key.
func LeaseOfKeyPath(namespace, key string) string { return ObjectPath(namespace, key) + "/leases" }

// ClearPath returns the escaped path that clears a namespace.
func ClearPath(namespace string) string { return NamespacePath(namespace) + "/clear" }

// SettingsPath returns the escaped path of a namespace's settings.
func SettingsPath(namespace string) string { return "/v1/namespaces/" + url.PathEscape(namespace) }

// ExplainPath returns the escaped path that explains one key.
func ExplainPath(namespace, key string) string {
	return "/v1/explain/" + url.PathEscape(namespace) + "/" + url.PathEscape(key)
}

// LeasePath returns the escaped path of a lease.
func LeasePath(id string) string { return "/v1/leases/" + url.PathEscape(id) }

// SlabPath returns the escaped path of a slab, of which there are only
// SlabPath(name) + "/map", "/drain", "/resume" and "/scrub".
func SlabPath(name string) string { return "/v1/slabs/" + url.PathEscape(name) }

// NamespacePath returns the escaped path that lists a namespace.
func NamespacePath(namespace string) string {
	return "/v1/kv/" + url.PathEscape(namespace)
}
