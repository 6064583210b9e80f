// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"os"
	"time"

	"github.com/rawblockd/rawblockd/tokens"
)

// checkSecrets reads the token file and the certificate as the daemon would.
func (d *doctor) checkSecrets() {
	if path := d.cfg.Auth.TokenFile; path != "" {
		d.checkTokens(path)
	}
	if t := d.cfg.TLS; t.CertFile != "" && t.KeyFile != "" {
		d.checkCertificate(t.CertFile, t.KeyFile)
	}
}

func (d *doctor) checkTokens(path string) {
	const name = "auth.token_file"
	if _, err := tokens.Load(path); err != nil {
		d.fail(name, "correct the file, or its mode, as said", "%v", err)
		return
	}
	d.ok(name, "%s can be read, %s", path, whose(path))
}

// soonExpired is how long before its end a certificate is worth a warning.
const soonExpired = 30 * 24 * time.Hour

func (d *doctor) checkCertificate(cert, key string) {
	const name = "tls"
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		d.fail(name, "correct tls.cert_file and tls.key_file: PEM, the daemon's user must be able to read both", "%v", err)
		return
	}
	now := time.Now()
	switch end := pair.Leaf.NotAfter; {
	case now.Before(pair.Leaf.NotBefore):
		d.fail(name, "set the clock, or wait", "the certificate %s is valid only from %s", cert, moment(pair.Leaf.NotBefore))
		return
	case now.After(end):
		d.fail(name, "renew it", "the certificate %s expired at %s", cert, moment(end))
		return
	case now.Add(soonExpired).After(end):
		d.warn(name, "renew it; SIGHUP reads it anew", "the certificate %s expires at %s", cert, moment(end))
		return
	}
	if fi, err := os.Stat(key); err == nil && fi.Mode().Perm()&0o007 != 0 {
		d.warn(name, "chmod o-rwx "+key, "everybody can read the key %s (%s)", key, whose(key))
		return
	}
	d.ok(name, "the certificate %s is valid until %s", cert, moment(pair.Leaf.NotAfter))
}
