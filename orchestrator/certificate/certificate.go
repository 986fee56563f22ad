// Package certificate creates the self-signed certificate of this user's daemons. Clients trust it by its pin.
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

// Pin returns the pin of a certificate: the SHA-256 of its public key (SubjectPublicKeyInfo) in base64url, 43
// characters.
func Pin(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Own returns the certificate in the user's folder, and creates it if there is none. Several processes may call Own
// at the same time; all get the same certificate.
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

// create writes a new key and its certificate, readable only by the owner. Error: fs.ErrExist if another process
// has created them meanwhile.
func create(folder, path string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	// Clients check only the key, so the dates do not matter.
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
	file, err := os.CreateTemp(folder, ".daemon-") // readable only by the owner
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
