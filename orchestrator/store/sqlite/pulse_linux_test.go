package sqlite

import (
	"os"
	"path/filepath"
	"testing"
)

// A holder is gone once its file is closed, as the kernel does when the process ends, and never before. Nothing is
// known of a holder whose token has no byte, or a byte of another file.
func TestPulse(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "mailroom.db")
	holder, other := newPulse(path), newPulse(path)
	token := holder.token("id")
	if again := holder.token("id"); again != token {
		t.Errorf("one process, two tokens: %q and %q", token, again)
	}
	if token == "id" {
		t.Fatal("the token names no byte")
	}
	for _, p := range []*pulse{holder, other} {
		if p.gone(token) {
			t.Error("a holder that lives is gone")
		}
		for _, unknown := range []string{"", "id", "-", "0.0.0-id", "-1.5.5-id", "zz.1.1-id", "1.1-id", token[:4]} {
			if p.gone(unknown) {
				t.Errorf("the holder of %q is gone", unknown)
			}
		}
	}
	holder.close()
	if !other.gone(token) {
		t.Error("a holder that died is there")
	}
	if holder.token("id") != "id" || holder.gone(token) {
		t.Error("a closed pulse goes on")
	}
	if err := os.Remove(path + "-turnstile"); err != nil {
		t.Fatal(err)
	}
	if other.gone(token) {
		t.Error("something is known though the file was removed")
	}
	if late := newPulse(path); late.gone(token) {
		t.Error("a token of another file is known")
	}
}
