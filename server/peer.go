// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"net"
	"net/http"
	"syscall"

	"golang.org/x/sys/unix"
)

// remote names the other side of a request's connection for people. On a unix
// socket it has no address, but it is a process.
func remote(r *http.Request) string {
	if c, ok := r.Context().Value(connKey{}).(*conn); ok && c.RemoteAddr().Network() == "unix" {
		return peer(c.Conn)
	}
	return r.RemoteAddr
}

// peer names the process that opened a unix connection.
func peer(c net.Conn) string {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return "unix"
	}
	name := "unix"
	raw, err := sc.SyscallConn()
	if err != nil {
		return name
	}
	err = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			name = fmt.Sprintf("pid %d uid %d", cred.Pid, cred.Uid)
		}
	})
	if err != nil {
		return "unix"
	}
	return name
}
