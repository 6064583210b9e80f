// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/client"
)

// credentials are the flags by which a client verb shows who it is, and tells
// who the daemon is.
type credentials struct {
	tokenFile, caFile string
	warn              io.Writer
}

func (k *credentials) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&k.tokenFile, "token-file", "", "file that holds the token to present, and nothing else (default $RAWBLOCKD_TOKEN, the token itself, then $RAWBLOCKD_TOKEN_FILE)")
	f.StringVar(&k.caFile, "ca-file", "", "PEM file of the authorities to trust for https:// (default $RAWBLOCKD_CA_FILE, then the system's)")
}

// options are what the client is told for a daemon at addr.
func (k *credentials) options(addr string, env func(string) string) ([]client.Option, error) {
	var out []client.Option
	token, err := k.token(env)
	if err != nil {
		return nil, err
	}
	if token != "" {
		out = append(out, client.WithToken(token))
	}
	ca := k.caFile
	if ca == "" && strings.HasPrefix(strings.ToLower(addr), "https:") {
		ca = env("RAWBLOCKD_CA_FILE")
	}
	if ca != "" {
		out = append(out, client.WithCAFile(ca))
	}
	return out, nil
}

// token finds the token. There is no flag for the token itself: other users of
// the host see what a process was called with.
func (k *credentials) token(env func(string) string) (string, error) {
	path, from := k.tokenFile, "--token-file"
	if path == "" {
		if token := env("RAWBLOCKD_TOKEN"); token != "" {
			return token, nil
		}
		path, from = env("RAWBLOCKD_TOKEN_FILE"), "$RAWBLOCKD_TOKEN_FILE"
	}
	if path == "" {
		return "", nil
	}
	if fi, err := os.Stat(path); err == nil && fi.Mode().IsRegular() && fi.Mode().Perm()&0o007 != 0 {
		fmt.Fprintf(k.warn, "rawblockd: warning: %s %s: its mode %04o gives other users of this host rights on the token: chmod o-rwx it\n", from, path, fi.Mode().Perm())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", from, path, bare(err))
	}
	token := bytes.TrimSpace(text)
	if len(token) == 0 || bytes.ContainsAny(token, " \t\r\n") {
		return "", fmt.Errorf("%s %s: want one token and nothing else in it; the daemon's auth.token_file is another kind of file", from, path)
	}
	return string(token), nil
}

// explainAccess adds what to do about a daemon that does not trust us, or that
// we do not; ok is false for other errors.
func explainAccess(err error) (explained error, ok bool) {
	var refusal *client.Error
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &refusal) && refusal.Code() == api.CodeUnauthorized:
		return fmt.Errorf("%w; name a file that holds yours with --token-file, or set $RAWBLOCKD_TOKEN", err), true
	case errors.As(err, &unknown):
		return fmt.Errorf("%w; name the authority's certificate with --ca-file or $RAWBLOCKD_CA_FILE", err), true
	case errors.As(err, &name):
		return fmt.Errorf("%w; give --addr a name that the certificate has", err), true
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("%w; renew the daemon's certificate (tls.cert_file) and send it SIGHUP, or set this host's clock", err), true
	case errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("%w; it speaks plain HTTP there: give --addr http://", err), true
	}
	return err, false
}
