package postgres

import (
	"strings"
	"testing"
)

// Errors about an address show no password.
func TestAddressesThatAreRefused(t *testing.T) {
	t.Parallel()
	for address, says := range map[string]string{
		"postgres://ann@db.example/mail?sslrootcert=/none/root.pem": "cannot read the file in the parameter sslrootcert of the address",
		"postgres://ann:a/b@db.example/mail":                        "the address of the database must have the form postgres://USER@HOST/DATABASE",
		"postgres://ann@db.example/mail?search_path=Public":         "search_path must name one schema",
	} {
		if _, err := configOf(address); err == nil || !strings.Contains(err.Error(), says) ||
			strings.Contains(err.Error(), "a/b") {
			t.Errorf("%s: %v; want %q", address, err, says)
		}
	}
}
