// SPDX-License-Identifier: Apache-2.0

package testcert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority issues certificates.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// New makes an authority of its own.
func New(t testing.TB) *Authority {
	t.Helper()
	now := time.Now()
	cert, key := sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "authority of a test"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil)
	return &Authority{cert, key}
}

// Pool returns what a client needs to trust.
func (a *Authority) Pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// PEM returns the authority's certificate.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// Issued is a certificate with its key, in PEM.
type Issued struct {
	Cert, Key []byte
	Serial    string
}

// Issue makes a certificate of 127.0.0.1, ::1 and names that ends at a time.
func (a *Authority) Issue(t testing.TB, ends time.Time, names ...string) Issued {
	t.Helper()
	begin := time.Now().Add(-time.Hour)
	if ends.Before(begin) {
		begin = ends.Add(-time.Hour)
	}
	cert, key := sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "server of a test"}, NotBefore: begin, NotAfter: ends,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: names, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}, a)
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return Issued{
		Cert:   pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}),
		Key:    pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}),
		Serial: cert.SerialNumber.String(),
	}
}

// TLS returns the certificate for a server.
func (i Issued) TLS(t testing.TB) *tls.Certificate {
	t.Helper()
	c, err := tls.X509KeyPair(i.Cert, i.Key)
	if err != nil {
		t.Fatal(err)
	}
	return &c
}

// Write puts the certificate and its key into files of a folder, in place of
// those there are.
func (i Issued) Write(t testing.TB, dir string) (cert, key string) {
	t.Helper()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, text := range map[string][]byte{cert: i.Cert, key: i.Key} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// sign makes a certificate of c by an authority, or by itself.
func sign(t testing.TB, c *x509.Certificate, by *Authority) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if c.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		t.Fatal(err)
	}
	parent, parentKey := c, key
	if by != nil {
		parent, parentKey = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, parentKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}
