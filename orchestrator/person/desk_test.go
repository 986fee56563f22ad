package person_test

import (
	"testing"

	"filippo.io/age"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/person"
	"mailroom/orchestrator/questions"
)

// TestDesk checks that a browser counts as a device. Questions are sealed for it, and pushed nowhere; doctor reports
// no missing pushes; and questions that only it could read are cancelled when it is revoked.
func TestDesk(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", " ", "a\nb", string(make([]byte, 65))} {
		_, _, err := questions.PairDesk(t.Context(), o.Ledger, name, identity.Recipient().String())
		want.Code(t, err, orchestrator.InvalidParams)
	}
	d, token, err := questions.PairDesk(t.Context(), o.Ledger, " Firefox ", identity.Recipient().String())
	if err != nil || d.Kind != questions.DeviceDesk || d.Name != "Firefox" || d.State != questions.DeviceWaiting {
		t.Fatalf("%+v, %v", d, err)
	}
	if got, err := questions.DeviceOfToken(t.Context(), o.Ledger, token); err != nil || got.ID != d.ID {
		t.Fatalf("%+v, %v", got, err)
	}
	o.finds("devices", "problem", "no device can read")
	_, err = person.Ask(t.Context(), o.Ledger, person.Question{Asker: "builder", Question: "Deploy?", Encrypted: true})
	want.Code(t, err, orchestrator.Unavailable)
	if _, err := person.Approve(t.Context(), o.Ledger,
		questions.Fingerprint(identity.Recipient().String())); err != nil {
		t.Fatal(err)
	}
	asked := o.ask("Yes", "No")
	if asked.Devices != 1 || asked.Pushed != 0 {
		t.Errorf("%d devices, %d pushed", asked.Devices, asked.Pushed)
	}
	desk := &phone{o, d.ID, identity}
	if said, err := desk.read(asked.Body); err != nil || said["question"] != "Deploy?" {
		t.Errorf("the desk reads %v, %v", said, err)
	}
	o.finds("devices", "ok", "1 device can read")
	o.finds("device "+d.ID, "ok", "while the console is open in it")
	if _, err := person.Revoke(t.Context(), o.Ledger, d.ID); err != nil {
		t.Fatal(err)
	}
	if q := o.question(asked.ID); q.Status != questions.Cancelled {
		t.Errorf("the question is %s", q.Status)
	}
}
