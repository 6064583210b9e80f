// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net"
	"net/netip"
	"strconv"
)

// maxSocketPath is sun_path without its terminating zero and the longest ending that
// the daemon puts behind it: ".fd" for the second socket, ".new" while it is made.
const maxSocketPath = 107 - len(".new")

func (c *Config) checkListen(fs *faults) {
	l := c.Listen
	absolute(fs, "listen.unix", l.Unix, true)
	if len(l.Unix) > maxSocketPath {
		fs.add("listen.unix", "%q has %d bytes: a socket's path has at most %d", l.Unix, len(l.Unix), maxSocketPath)
	}
	if l.Unix == "" && l.HTTP == "" {
		fs.add("listen", "unix and http are both off, so nobody could reach the daemon: set one")
	}
	c.checkTCP(fs, "listen.http", l.HTTP, true)
	c.checkTCP(fs, "listen.admin", l.Admin, true)
	c.checkTCP(fs, "listen.lease.addr", l.Lease.Addr, false)
	for _, two := range []struct{ path, addr, other, otherAddr string }{
		{"listen.admin", l.Admin, "listen.http", l.HTTP},
		{"listen.lease.addr", l.Lease.Addr, "listen.http", l.HTTP},
		{"listen.lease.addr", l.Lease.Addr, "listen.admin", l.Admin},
	} {
		if sameAddr(two.addr, two.otherAddr) {
			fs.add(two.path, "%q is also %s: the two need different ports", two.addr, two.other)
		}
	}
	c.checkLeaseListener(fs)
}

// checkTCP checks host:port, and that nobody beyond this host gets in without
// a token where one is needed.
func (c *Config) checkTCP(fs *faults, path, addr string, needsToken bool) {
	if addr == "" {
		return
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		fs.add(path, "%q is no address: want host:port, as in 127.0.0.1:9200", addr)
		return
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		fs.add(path, "%q has the port %q: want 0 to 65535", addr, port)
	}
	if needsToken && !loopback(host) && c.Auth.TokenFile == "" {
		fs.add(path, "%q is reachable from beyond this host, which needs auth.token_file: set it, or listen on 127.0.0.1 or the unix socket", addr)
	}
}

// loopback judges the address as written: what a name resolves to can change
// after the check, so of names only localhost counts.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

func sameAddr(a, b string) bool {
	if a == "" || a != b {
		return false
	}
	_, port, err := net.SplitHostPort(a)
	return err == nil && port != "0"
}
