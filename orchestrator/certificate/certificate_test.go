package certificate

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"mailroom/orchestrator/orchestratortest/want"
)

// Daemons that start at the same time all get the same key, which only its owner can read.
func TestOwn(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "state")
	pins := make([]string, 8)
	var all sync.WaitGroup
	for i := range pins {
		all.Go(func() {
			own, err := Own(folder)
			if err != nil {
				t.Error(err)
				return
			}
			cert, err := x509.ParseCertificate(own.Certificate[0])
			if err != nil {
				t.Error(err)
				return
			}
			pins[i] = Pin(cert)
		})
	}
	all.Wait()
	for _, pin := range pins {
		want.Equal(t, "pin", pin, pins[0])
	}
	want.Equal(t, "length of a pin", len(pins[0]), 43)
	files, err := os.ReadDir(folder)
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	info, err := files[0].Info()
	want.Equal(t, "error", err, nil)
	want.Equal(t, "mode", info.Mode(), os.FileMode(0o600))
	if err := os.WriteFile(filepath.Join(folder, "daemon.pem"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Own(folder); err == nil {
		t.Error("an empty file is taken for a certificate")
	}
}
