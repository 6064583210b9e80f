// SPDX-License-Identifier: Apache-2.0

package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// Option changes what New makes.
type Option func(*options) error

type options struct {
	token string
	roots *x509.CertPool
}

// WithToken sends a bearer token with every request. It is no part of any error.
func WithToken(token string) Option {
	return func(o *options) error {
		if token == "" {
			return errors.New("the token is empty")
		}
		for i := range len(token) {
			if token[i] <= ' ' || token[i] > '~' {
				return errors.New("the token has characters that no header carries: want visible ASCII without spaces")
			}
		}
		o.token = token
		return nil
	}
}

// WithCAFile trusts the certificates in a PEM file, and no others, to tell that
// an https:// address is the daemon's. For other addresses it is an error.
func WithCAFile(path string) Option {
	return func(o *options) error {
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("CA file: %w", err)
		}
		o.roots = x509.NewCertPool()
		if !o.roots.AppendCertsFromPEM(text) {
			return fmt.Errorf("CA file %s: holds no certificate: want PEM", path)
		}
		return nil
	}
}

// tls is the configuration of an https:// address.
func (o *options) tls() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.roots}
}
