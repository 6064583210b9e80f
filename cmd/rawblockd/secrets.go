// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/rawblockd/rawblockd/config"
	"github.com/rawblockd/rawblockd/tokens"
)

// secrets are what a configuration names and does not hold.
type secrets struct {
	tokens *tokens.Set      // nil: nobody needs one
	cert   *tls.Certificate // nil: plain HTTP
}

// read takes in the files that c names, and returns what is wrong with them. It
// is a config.Check.
func (s *secrets) read(c *config.Config) []config.Fault {
	*s = secrets{}
	faults := s.readTokens(c.Auth.TokenFile)
	if c.TLS.CertFile != "" && c.TLS.KeyFile != "" {
		faults = append(faults, s.readCertificate(c.TLS)...)
	}
	return faults
}

func (s *secrets) readTokens(path string) []config.Fault {
	if path == "" {
		return nil
	}
	set, err := tokens.Load(path)
	if err == nil {
		s.tokens = set
		return nil
	}
	const at = "auth.token_file"
	var all *tokens.Error
	if !errors.As(err, &all) {
		return []config.Fault{{Path: at, Msg: err.Error()}}
	}
	var out []config.Fault
	for _, f := range all.Faults {
		out = append(out, config.Fault{Path: at, Msg: path + ": " + f.String()})
	}
	return out
}

func (s *secrets) readCertificate(t config.TLS) []config.Fault {
	cert, fault := readPEM("tls.cert_file", t.CertFile)
	key, keyFault := readPEM("tls.key_file", t.KeyFile)
	if faults := append(fault, keyFault...); len(faults) > 0 {
		return faults
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		why := strings.TrimPrefix(err.Error(), "tls: ")
		return []config.Fault{{Path: "tls", Msg: fmt.Sprintf("%s and %s are no certificate with its key: %s: want both in PEM, the host's own certificate first", t.CertFile, t.KeyFile, why)}}
	}
	s.cert = &pair
	return nil
}

func readPEM(at, path string) ([]byte, []config.Fault) {
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, []config.Fault{{Path: at, Msg: fmt.Sprintf("%s: the daemon, uid %d, may not read it: give it to that user, or to a group of it", path, os.Geteuid())}}
	case err != nil:
		return nil, []config.Fault{{Path: at, Msg: fmt.Sprintf("%s: %v", path, bare(err))}}
	}
	return text, nil
}

// warnings says in sentences what of the secrets is worth a look.
func (s *secrets) warnings(c *config.Config, now time.Time) []string {
	if s.cert == nil {
		return nil
	}
	var out []string
	switch l := s.cert.Leaf; {
	case now.Before(l.NotBefore):
		out = append(out, fmt.Sprintf("tls.cert_file: clients refuse %s, which is valid only from %s: set the clock, or wait", c.TLS.CertFile, moment(l.NotBefore)))
	case now.After(l.NotAfter):
		out = append(out, fmt.Sprintf("tls.cert_file: clients refuse %s, which expired at %s: renew it and send SIGHUP", c.TLS.CertFile, moment(l.NotAfter)))
	case now.Add(soonExpired).After(l.NotAfter):
		out = append(out, fmt.Sprintf("tls.cert_file: %s expires at %s: renew it and send SIGHUP", c.TLS.CertFile, moment(l.NotAfter)))
	}
	if fi, err := os.Stat(c.TLS.KeyFile); err == nil && fi.Mode().Perm()&0o007 != 0 {
		out = append(out, fmt.Sprintf("tls.key_file: its mode %04o gives others rights on %s: chmod o-rwx it", fi.Mode().Perm(), c.TLS.KeyFile))
	}
	return out
}

// hostNames are the names that requests over TCP may give this host.
func hostNames(l config.Listen) []string {
	var out []string
	if name, err := os.Hostname(); err == nil {
		out = append(out, name)
	}
	for _, addr := range []string{l.HTTP, l.Admin, l.Lease.Addr} {
		host, _, err := net.SplitHostPort(addr)
		if err != nil || host == "" {
			continue
		}
		if _, err := netip.ParseAddr(host); err != nil {
			out = append(out, host)
		}
	}
	return out
}
