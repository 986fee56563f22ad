package person_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/person"
	"mailroom/orchestrator/questions"
)

// TestApprovedWithoutKeptAlerts checks that if the kept alerts cannot be sealed for a phone, the error reports that
// the phone is nevertheless active, and that a second approval completes the work.
func TestApprovedWithoutKeptAlerts(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	told, err := person.Tell(ledger.WithIdentity(t.Context(), "builder"), o.Ledger,
		person.Alert{Sender: "builder", Message: "Done", Encrypted: true})
	if err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(o.Ledger.FilePrefix()+"-signal", "k-keptalerts")
	if err := os.Chmod(kept, 0o644); err != nil {
		t.Fatal(err)
	}
	p := o.pair()
	_, err = person.Approve(t.Context(), o.Ledger, p.fingerprint())
	if want.Code(t, err, orchestrator.PermissionDenied); !strings.Contains(err.Error(),
		"device "+p.id+" is active, but the stored alerts") {
		t.Error(err)
	}
	if asked := o.ask(); asked.Devices != 1 {
		t.Errorf("asked %+v", asked)
	}
	if err := os.Chmod(kept, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := person.Approve(t.Context(), o.Ledger, p.fingerprint()); err != nil {
		t.Fatal(err)
	}
	p.mustRead(o.alert(told.ID).Body)
}

// TestKeptAlertsAtOnce checks that alerts sent at the same time while there is no device are sealed to one key.
func TestKeptAlertsAtOnce(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	const tellers = 8
	failures := make(chan error, tellers)
	for range tellers {
		go func() {
			_, err := person.Tell(ledger.WithIdentity(background, "builder"), o.Ledger,
				person.Alert{Sender: "builder", Message: "Done", Encrypted: true})
			failures <- err
		}()
	}
	for range tellers {
		if err := <-failures; err != nil {
			t.Error(err)
		}
	}
	p := o.phone()
	alerts, err := questions.Alerts(t.Context(), o.Ledger, 2*tellers)
	if err != nil || len(alerts) != tellers {
		t.Fatalf("%d alerts, %v", len(alerts), err)
	}
	for _, a := range alerts {
		p.mustRead(a.Body)
	}
	if left := o.files("replies"); len(left) != 0 {
		t.Errorf("left is %v", left)
	}
}
