package remote

import (
	"crypto/tls"
	"errors"

	"mailroom/orchestrator"
	"mailroom/orchestrator/certificate"
)

// errOtherKey is the error for a machine whose key does not match the pin.
var errOtherKey = errors.New("the key is different")

// pinned returns the TLS configuration for connections to the machine that has the key of a pin. It ignores names,
// dates and certificate authorities: possession of the key identifies the machine.
func pinned(pin string) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, VerifyConnection: func(state tls.ConnectionState) error {
		if len(state.PeerCertificates) == 0 || certificate.Pin(state.PeerCertificates[0]) != pin {
			return errOtherKey
		}
		return nil
	}}
}

func otherKey(p Place) error {
	return orchestrator.Errorf(orchestrator.PermissionDenied, "the key of %s does not match its pin; nothing was sent", p).
		WithHint("If the daemon has a new certificate, run `mailroom invite NAME` on the machine with the database. On this machine, run the command that it prints. If part of the `mailroom join` command was missing, run the complete command. In any other case, another program answers in place of the daemon")
}
