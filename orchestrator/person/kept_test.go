package person_test

import (
	"slices"
	"strings"
	"testing"

	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/person"
	"mailroom/orchestrator/questions"
)

// TestKeptAlerts checks that an alert without a device reaches the first approved device, and is not stored
// unencrypted in the meantime.
func TestKeptAlerts(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	tell := func(a person.Alert) person.Told {
		t.Helper()
		a.Sender = "builder"
		told, err := person.Tell(ledger.WithIdentity(t.Context(), "builder"), o.Ledger, a)
		if err != nil {
			t.Fatal(err)
		}
		return told
	}
	early := tell(person.Alert{Message: "Disk is full", Type: "error", Encrypted: true, Context: "c"})
	if early.Devices != 0 || early.Pushed != 0 || strings.Contains(early.Body, "Disk") {
		t.Fatalf("told %+v", early)
	}
	clear := tell(person.Alert{Message: "In clear"})
	if !strings.Contains(clear.Body, `"message":"In clear","alertType":"info"`) {
		t.Fatalf("told %+v", clear)
	}
	p := o.pair()
	if _, err := p.read(early.Body); err == nil {
		t.Fatal("a device reads it that nobody approved")
	}
	if _, err := person.Approve(t.Context(), o.Ledger, p.fingerprint()); err != nil {
		t.Fatal(err)
	}
	d := slices.IndexFunc(o.devices(), func(d questions.Device) bool { return d.ID == p.id })
	_, alerts, err := questions.SignalsFor(t.Context(), o.Ledger, o.devices()[d])
	at := slices.IndexFunc(alerts, func(a questions.Alert) bool { return a.ID == early.ID })
	if err != nil || len(alerts) != 2 || at < 0 {
		t.Fatalf("the device is shown %+v, %v", alerts, err)
	}
	got := p.mustRead(alerts[at].Body)
	if got["message"] != "Disk is full" || got["alertType"] != "error" || got["priority"] != "high" ||
		got["id"] != early.ID || got["kind"] != "alert" || got["from"] != "builder" ||
		got["context"] != "c" || got["createdAt"] != "2026-01-02T03:04:05.000Z" {
		t.Errorf("it reads %v", got)
	}
	late := tell(person.Alert{Message: "Done", Type: "success", Encrypted: true, Priority: "low"})
	if got := p.mustRead(late.Body); late.Devices != 1 || got["priority"] != "low" {
		t.Errorf("told %+v, read %v", late, got)
	}
	second := o.phone()
	if _, err := second.read(o.alert(late.ID).Body); err == nil {
		t.Error("a device reads what was told before it was approved")
	}
}

// TestKeptAlertsAfterAnApproval checks that an alert becomes readable even if the approving process dies halfway, or
// if a phone is approved between the search for phones and the write of the row.
func TestKeptAlertsAfterAnApproval(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	told := func() person.Told {
		t.Helper()
		a, err := person.Tell(ledger.WithIdentity(t.Context(), "builder"), o.Ledger,
			person.Alert{Sender: "builder", Message: "Disk is full", Encrypted: true})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	early := told()
	half := func(p *phone) {
		p.pin()
		if _, err := questions.ActivateDevice(t.Context(), o.Ledger, p.id,
			p.identity.Recipient().String()); err != nil {
			t.Error(err)
		}
	}
	first, second := o.pair(), o.pair()
	half(first)
	half(second)
	if err := person.Sweep(t.Context(), o.Ledger); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*phone{first, second} {
		p.mustRead(o.alert(early.ID).Body)
		if _, err := person.Revoke(t.Context(), o.Ledger, p.id); err != nil {
			t.Fatal(err)
		}
	}

	third := o.pair()
	o.whenAsked(func() { // Tell reads the clock after it has searched for phones
		o.whenAsked(nil)
		half(third)
	})
	late := told()
	if late.Devices != 0 {
		t.Fatalf("told %+v: the phone was there before", late)
	}
	third.mustRead(o.alert(late.ID).Body)
}

// TestTwoApprovalsAtOnce checks that if phones are approved at the same time, one of them can read all kept alerts.
func TestTwoApprovalsAtOnce(t *testing.T) {
	t.Parallel()
	for range 5 {
		o := newOffice(t)
		var told []string
		for range 5 {
			a, err := person.Tell(ledger.WithIdentity(t.Context(), "builder"), o.Ledger,
				person.Alert{Sender: "builder", Message: "Done", Encrypted: true})
			if err != nil {
				t.Fatal(err)
			}
			told = append(told, a.ID)
		}
		phones := []*phone{o.pair(), o.pair()}
		failures := make(chan error, len(phones))
		for _, p := range phones {
			go func() {
				_, err := person.Approve(background, o.Ledger, p.fingerprint())
				failures <- err
			}()
		}
		for range phones {
			if err := <-failures; err != nil {
				t.Error(err)
			}
		}
		read := func(p *phone) (n int) {
			for _, id := range told {
				if _, err := p.read(o.alert(id).Body); err == nil {
					n++
				}
			}
			return n
		}
		if a, b := read(phones[0]), read(phones[1]); max(a, b) != len(told) {
			t.Errorf("of %d alerts one phone reads %d, the other %d", len(told), a, b)
		}
	}
}

func (o *office) devices() []questions.Device {
	o.t.Helper()
	list, err := questions.Devices(o.t.Context(), o.Ledger)
	if err != nil {
		o.t.Fatal(err)
	}
	return list
}

func (o *office) alert(id string) questions.Alert {
	o.t.Helper()
	a, err := questions.GetAlert(o.t.Context(), o.Ledger, id)
	if err != nil {
		o.t.Fatal(err)
	}
	return a
}
