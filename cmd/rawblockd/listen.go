// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/config"
)

// listeners are what a daemon answers on; nil: off.
type listeners struct{ unix, http, admin, lease net.Listener }

// listen opens all listeners or none.
func listen(l config.Listen) (_ listeners, err error) {
	var ls listeners
	defer func() {
		if err != nil {
			err = errors.Join(err, ls.close())
		}
	}()
	if l.Unix != "" {
		if ls.unix, err = listenUnix(l); err != nil {
			return listeners{}, err
		}
	}
	if ls.http, err = listenTCP("listen.http", l.HTTP, " (flag --http)"); err != nil {
		return listeners{}, err
	}
	if ls.admin, err = listenTCP("listen.admin", l.Admin, " (flag --admin)"); err != nil {
		return listeners{}, err
	}
	if ls.lease, err = listenTCP("listen.lease.addr", l.Lease.Addr, ""); err != nil {
		return listeners{}, err
	}
	return ls, nil
}

// listenTCP listens on the address of a setting, unless it is empty; flag names
// what else sets it.
func listenTCP(key, addr, flag string) (net.Listener, error) {
	if addr == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("%s %s: the port is in use by another process: stop it (ss -ltnp shows it), or change %s%s", key, addr, key, flag)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", key, addr, err)
	}
	return l, nil
}

// close closes those that no server closes yet.
func (ls listeners) close() error {
	var errs []error
	for _, l := range []net.Listener{ls.unix, ls.http, ls.admin, ls.lease} {
		if l != nil {
			errs = append(errs, l.Close())
		}
	}
	return errors.Join(errs...)
}

// address returns where l really listens: port 0 means any.
func address(l net.Listener) string {
	if l == nil {
		return ""
	}
	return l.Addr().String()
}
