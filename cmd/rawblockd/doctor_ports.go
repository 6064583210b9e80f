// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/api"
)

// checkPorts binds every TCP address for a moment, as the daemon would.
func (d *doctor) checkPorts(ctx context.Context) {
	l := d.cfg.Listen
	for _, p := range []struct{ key, addr string }{{"listen.http", l.HTTP}, {"listen.admin", l.Admin}, {"listen.lease.addr", l.Lease.Addr}} {
		if p.addr != "" {
			d.checkPort(ctx, p.key, p.addr)
		}
	}
}

func (d *doctor) checkPort(ctx context.Context, key, addr string) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	switch {
	case err == nil:
		_ = l.Close() // nobody was accepted
		d.ok(key, "%s is free", addr)
	case errors.Is(err, unix.EADDRINUSE):
		d.checkTaken(ctx, key, addr)
	case errors.Is(err, unix.EACCES):
		d.fail(key, "use a port of 1024 or more, or give the daemon CAP_NET_BIND_SERVICE", "%s: this user may not listen there", addr)
	case errors.Is(err, unix.EADDRNOTAVAIL):
		d.fail(key, "name an address of this host (ip -br addr shows them)", "%s: no interface has this address", addr)
	default:
		d.fail(key, "correct it", "%s: %v", addr, err)
	}
}

// checkTaken tells this configuration's daemon from a stranger.
func (d *doctor) checkTaken(ctx context.Context, key, addr string) {
	instance := d.instanceAt(ctx, addr)
	who := d.portHolder(addr)
	switch {
	case instance != "" && d.own != nil && instance == d.own.instance:
		d.ok(key, "%s: the daemon of this configuration (%s) answers", addr, d.own)
	case instance != "" && d.own == nil && d.cfg.Listen.Unix == "":
		d.warn(key, "nothing, if it is the daemon of this configuration; else stop it, or change "+key, "%s is in use by a rawblockd (%s, instance %s)", addr, who, instance)
	case instance != "":
		d.fail(key, "stop it, or change "+key, "%s is in use by another rawblockd (%s, instance %s)", addr, who, instance)
	default:
		d.fail(key, "stop it (ss -ltnp shows it), or change "+key, "%s is in use by %s", addr, who)
	}
}

// instanceAt returns the instance of the rawblockd that answers at addr; "":
// none does. Health needs no token, and whose certificate it is says nothing
// that is asked here.
func (d *doctor) instanceAt(ctx context.Context, addr string) string {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	scheme := "http"
	if d.cfg.TLS.CertFile != "" {
		scheme = "https"
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+net.JoinHostPort(host, port)+"/healthz", nil)
	if err != nil {
		return ""
	}
	t := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	resp, err := (&http.Client{Transport: t}).Do(req)
	if err != nil {
		return ""
	}
	_ = resp.Body.Close() // the header says it
	return resp.Header.Get(api.HeaderInstance)
}

// portHolder names the process that listens on a port, as far as this user may
// see it.
func (d *doctor) portHolder(addr string) string {
	const unknown = "another process"
	_, port, err := net.SplitHostPort(addr)
	n, convErr := strconv.Atoi(port)
	if err != nil || convErr != nil {
		return unknown
	}
	sockets := d.listening(n)
	pids, _ := filepath.Glob(filepath.Join(d.proc, "[0-9]*"))
	for _, pid := range pids {
		fds, _ := filepath.Glob(filepath.Join(pid, "fd/*"))
		for _, fd := range fds {
			if at, err := os.Readlink(fd); err == nil && sockets[at] {
				return fmt.Sprintf("pid %s (%s)", filepath.Base(pid), firstOf(readLine(filepath.Join(pid, "comm")), "no name"))
			}
		}
	}
	return unknown
}

// listening returns the sockets that listen on a port, as /proc/PID/fd names
// them.
func (d *doctor) listening(port int) map[string]bool {
	const listen = "0A"
	out := map[string]bool{}
	for _, file := range []string{"net/tcp", "net/tcp6"} {
		for line := range strings.Lines(readText(filepath.Join(d.proc, file))) {
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != listen {
				continue
			}
			_, hex, _ := strings.Cut(f[1], ":")
			if n, err := strconv.ParseInt(hex, 16, 32); err == nil && int(n) == port {
				out["socket:["+f[9]+"]"] = true
			}
		}
	}
	return out
}
