// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"strings"
)

// follow makes found the secrets of the daemon, which does already as they say, and
// returns what of them is new: a file changes without its path. That nobody needs a
// token any more is a warning.
func (d *daemon) follow(found *secrets) []string {
	was := d.secrets
	d.secrets = found
	if l := d.unguarded(); was.tokens != nil && found.tokens == nil && len(l) > 0 {
		d.log.Warn("SIGHUP: auth.token_file is gone: every program on this host may now use these listeners without a token, to administer, too", "listeners", strings.Join(l, ", "))
	}
	var out []string
	if text := tokenNews(was, found); text != "" {
		out = append(out, text)
	}
	if d.running.TLS.CertFile != "" && was.cert != nil && found.cert != nil && !bytes.Equal(was.cert.Leaf.Raw, found.cert.Leaf.Raw) {
		out = append(out, "certificate until "+moment(found.cert.Leaf.NotAfter))
	}
	return out
}

// unguarded lists the listeners that a token would guard.
func (d *daemon) unguarded() []string {
	var out []string
	for _, l := range []struct{ name, addr string }{{"http", address(d.listeners.http)}, {"admin", address(d.listeners.admin)}} {
		if l.addr != "" {
			out = append(out, "listen."+l.name+" "+l.addr)
		}
	}
	return out
}

// tokenNews is for people; "": the tokens are the same.
func tokenNews(was, now *secrets) string {
	if now.tokens == nil {
		return ""
	}
	added, removed, changed := now.tokens.Diff(was.tokens)
	text := fmt.Sprintf("tokens: %d", now.tokens.Len())
	for _, n := range []struct {
		n    int
		word string
	}{{added, "added"}, {removed, "removed"}, {changed, "changed"}} {
		if n.n > 0 {
			text += fmt.Sprintf(", %d %s", n.n, n.word)
		}
	}
	if added+removed+changed == 0 {
		return ""
	}
	return text
}
