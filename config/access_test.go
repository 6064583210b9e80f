// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// With tokens the listeners may be reached from beyond this host, which is worth
// a warning as long as they speak plain HTTP.
func TestBeyondLoopback(t *testing.T) {
	const auth, tls = "auth: {token_file: /t}\n", "tls: {cert_file: /c, key_file: /k}\n"
	for _, tt := range []struct {
		text string
		want []string
	}{
		{"", nil},
		{auth, nil},
		{auth + "listen: {http: '0.0.0.0:9200'}\n", []string{"listen.http: 0.0.0.0:9200 is reachable"}},
		{auth + "listen: {http: ':9200', admin: 'host.example:9201'}\n", []string{"listen.http: :9200", "listen.admin: host.example:9201"}},
		{auth + tls + "listen: {http: ':9200', admin: ':9201'}\n", nil},
		{"listen: {lease: {addr: ':9300', namespaces: [default]}}\n", nil}, // no tokens travel there
	} {
		got := mustLoad(t, short+tt.text).Warnings()
		if len(got) != len(tt.want) {
			t.Errorf("%q: got %q, want %q", tt.text, got, tt.want)
		}
		for i := range min(len(got), len(tt.want)) {
			if !strings.Contains(got[i], tt.want[i]) || !strings.Contains(got[i], "in the clear: set tls.cert_file") {
				t.Errorf("%q: got %q, want %q", tt.text, got[i], tt.want[i])
			}
		}
	}
}

func TestLeaseListener(t *testing.T) {
	for _, tt := range []struct {
		lease string
		want  []string
		note  bool
	}{
		{"{addr: '127.0.0.1:9300', namespaces: [default]}", []string{"127.0.0.0/8", "::1/128"}, false},
		{"{addr: '0.0.0.0:9300', namespaces: [default]}", []string{"127.0.0.0/8", "::1/128"}, true},
		{"{addr: ':9300', namespaces: [default], allow_cidrs: [10.0.0.0/8, 'fd00::/8', 192.0.2.7/32]}", []string{"10.0.0.0/8", "fd00::/8", "192.0.2.7/32"}, false},
	} {
		c := mustLoad(t, short+"listen: {lease: "+tt.lease+"}\n")
		var want []netip.Prefix
		for _, s := range tt.want {
			want = append(want, netip.MustParsePrefix(s))
		}
		if got := c.Listen.Lease.Prefixes(); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", tt.lease, got, want)
		}
		if got := strings.Contains(strings.Join(c.Notes(), "\n"), "allow_cidrs is empty"); got != tt.note {
			t.Errorf("%s: notes %q, want one of the empty list: %v", tt.lease, c.Notes(), tt.note)
		}
	}
}
