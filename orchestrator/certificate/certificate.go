// Package certificate makes the certificate of this user's daemons, which no authority has signed: whoever is to trust it
// knows its pin.
package certificate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// Pin returns the pin of a certificate, 43 characters: SHA-256 of its public key (SubjectPublicKeyInfo), in base64url.
func Pin(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Own returns the certificate that is kept in a folder of the user's own, and makes it if there is none. It may be called by
// several processes at once, which get the same.
func Own(folder string) (tls.Certificate, error) {
	path := filepath.Join(folder, "daemon.pem")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = create(folder, path); err == nil || errors.Is(err, fs.ErrExist) {
			text, err = os.ReadFile(path)
		}
	}
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(text, text)
}

// create writes a new key and its certificate, for its owner alone. Error: fs.ErrExist if another has done so meanwhile.
func create(folder, path string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	// Clients look at the key alone, so that dates say nothing.
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mailroom"}, DNSNames: []string{"mailroom"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err == nil {
		err = os.MkdirAll(folder, 0o700)
	}
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(folder, ".daemon-") // which only its owner can read
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	for _, block := range []pem.Block{{Type: "CERTIFICATE", Bytes: der}, {Type: "PRIVATE KEY", Bytes: private}} {
		err = errors.Join(err, pem.Encode(file, &block))
	}
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Link(file.Name(), path)
}
