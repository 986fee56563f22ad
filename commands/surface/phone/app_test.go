package phone_test

import (
	"testing"
)

// TestPairingByLink: the code of the link is filled in and taken out of the address, the fingerprint is that of the key
// which the phone made, and nothing is shown before the approval.
func TestPairingByLink(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	code, _, err := m.StartPairing(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tb := m.open("/pair#c=" + code)
	tb.until(`document.getElementById("code")?.value === %s`, js(code))
	if at := eval[string](tb, `location.href`); at != m.listen.Address+"/" {
		t.Errorf("the address is %s, with the code in it", at)
	}
	tb.fill("Name of this device", "Test phone")
	tb.press("Pair this device")
	tb.sees("Approve this device")
	d := m.device()
	if d.Name != "Test phone" || d.State != "waiting" {
		t.Errorf("the device is %+v", d)
	}
	tb.sees("mailroom signal device approve " + d.Fingerprint)
	if shown := eval[string](tb, `document.querySelector(".fingerprint").innerText`); shown != d.Fingerprint {
		t.Errorf("the phone shows %s, the machine has %s", shown, d.Fingerprint)
	}
	if _, err := m.ActivateDevice(t.Context(), d.ID, d.Recipient); err != nil {
		t.Fatal(err)
	}
	tb.sees("No open questions.")
	tb.sees("Turn on notifications")
}
