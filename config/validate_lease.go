// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net"
	"net/netip"
)

func (c *Config) checkLeaseListener(fs *faults) {
	l := c.Listen.Lease
	if l.Addr == "" && len(l.AllowCIDRs)+len(l.Namespaces) > 0 {
		fs.add("listen.lease", "allow_cidrs and namespaces have no effect without listen.lease.addr")
	}
	if l.Addr != "" && len(l.Namespaces) == 0 {
		fs.add("listen.lease.namespaces", "names no namespace, so the listener would serve nothing: name those that may be used there without a token")
	}
	for i, n := range l.Namespaces {
		if !c.hasNamespace(n) {
			fs.add(fmt.Sprintf("listen.lease.namespaces[%d]", i), "%q is not one of namespaces", n)
		}
	}
	for i, s := range l.AllowCIDRs {
		path := fmt.Sprintf("listen.lease.allow_cidrs[%d]", i)
		switch p, err := netip.ParsePrefix(s); {
		case err != nil:
			fs.add(path, "%q is no address range: want one like 10.0.0.0/8 or fd00::/8", s)
		case p.Addr().Is4In6():
			fs.add(path, "%q is an IPv4 range written as IPv6, which no client's address is compared with: write it as IPv4", s)
		case p != p.Masked():
			fs.add(path, "%q has bits behind its prefix: write %v for the whole range, or %v for the one address", s, p.Masked(), netip.PrefixFrom(p.Addr(), p.Addr().BitLen()))
		}
	}
}

func (c *Config) hasNamespace(name string) bool {
	for _, n := range c.Namespaces {
		if n.Name == name {
			return true
		}
	}
	return false
}

// Prefixes returns whose requests the lease listener answers. The configuration
// is valid.
func (l Lease) Prefixes() []netip.Prefix {
	out := make([]netip.Prefix, 0, max(len(l.AllowCIDRs), 2))
	for _, s := range l.AllowCIDRs {
		out = append(out, netip.MustParsePrefix(s))
	}
	if len(out) == 0 {
		out = append(out, netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"))
	}
	return out
}

// leaseNotes says what an empty allow_cidrs means where that is easily missed.
func (c *Config) leaseNotes() []string {
	l := c.Listen.Lease
	host, _, err := net.SplitHostPort(l.Addr)
	if err != nil || loopback(host) || len(l.AllowCIDRs) > 0 {
		return nil
	}
	return []string{fmt.Sprintf("listen.lease.allow_cidrs is empty, so %s answers clients of this host alone, by their loopback address: list the ranges of the others", l.Addr)}
}

// Warnings says in sentences what of a valid configuration is dangerous. For the
// log.
func (c *Config) Warnings() []string {
	var out []string
	for _, l := range []struct{ path, addr string }{{"listen.http", c.Listen.HTTP}, {"listen.admin", c.Listen.Admin}} {
		host, _, err := net.SplitHostPort(l.addr)
		if err == nil && !loopback(host) && c.TLS.CertFile == "" {
			out = append(out, fmt.Sprintf("%s: %s is reachable from beyond this host without TLS, so tokens and payloads travel in the clear: set tls.cert_file and tls.key_file", l.path, l.addr))
		}
	}
	return out
}
