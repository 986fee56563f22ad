package person_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	_ "github.com/mattn/go-sqlite3"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/person"
	"mailroom/orchestrator/questions"
)

// exec changes the table as any program could.
func (o *office) exec(statement string, args ...any) {
	o.t.Helper()
	db := enginetest.Plain(o.t, o.path)
	defer db.Close()
	if _, err := db.Exec(statement, args...); err != nil {
		o.t.Fatal(err)
	}
}

// TestNoDevice checks that a question that no device could show is not asked, and never sent unencrypted instead.
func TestNoDevice(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	ask := func(encrypted bool) (person.Asked, error) {
		return person.Ask(ledger.WithIdentity(t.Context(), "builder"), o.Ledger,
			person.Question{Asker: "builder", Question: "Deploy?", Encrypted: encrypted})
	}
	for _, encrypted := range []bool{true, false} {
		_, err := ask(encrypted)
		want.Code(t, err, orchestrator.Unavailable)
		if !strings.Contains(err.Error(), "mailroom signal pair") {
			t.Errorf("the error is %v", err)
		}
	}
	p := o.pair()
	_, err := ask(true)
	want.Code(t, err, orchestrator.Unavailable)
	if !strings.Contains(err.Error(), "is waiting for approval") {
		t.Errorf("the error is %v", err)
	}
	if _, err := person.Revoke(t.Context(), o.Ledger, p.id); err != nil {
		t.Fatal(err)
	}
	if _, err := questions.SetNtfy(t.Context(), o.Ledger,
		questions.NtfyConfig{URL: "https://ntfy.sh/a-topic"}); err != nil {
		t.Fatal(err)
	}
	_, err = ask(true)
	want.Code(t, err, orchestrator.Unavailable)
	if asked, err := ask(false); err != nil || asked.Devices != 1 || asked.Pushed != 1 {
		t.Errorf("in clear, by ntfy: %+v, %v", asked, err)
	}
	if list, err := questions.List(t.Context(), o.Ledger, questions.Filter{}); err != nil || len(list) != 1 {
		t.Errorf("stored are %v, %v", list, err)
	}
}

// TestDeviceOfTheTable checks that a device that somebody wrote into the table receives nothing, nor does one whose
// key was replaced there.
func TestDeviceOfTheTable(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	p := o.phone()
	thief, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"d-0123456789ABCDEFGHJKMNPQRS", "../replies/q-0", "d-", strings.Repeat("d", 300)} {
		o.exec(`INSERT INTO signal_devices (device_id, name, state, recipient, created_at, approved_at, push_host)
			VALUES (?, 'thief', 'active', ?, '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z',
				'fcm.googleapis.com')`, id, thief.Recipient().String())
	}
	asked := o.ask()
	if asked.Devices != 1 || len(asked.Unused) != 4 || !slices.Contains(asked.Unused, "d-0123456789ABCDEFGHJKMNPQRS") {
		t.Errorf("asked %+v", asked)
	}
	p.mustRead(asked.Body)
	if _, err := (&phone{o, "", thief}).read(asked.Body); err == nil {
		t.Error("the thief can read it")
	}
	told, err := person.Tell(t.Context(), o.Ledger, person.Alert{Sender: "builder", Message: "x", Encrypted: true})
	if err != nil || told.Devices != 1 || len(told.Unused) != 4 {
		t.Errorf("told %+v, %v", told, err)
	}
	if _, err := (&phone{o, "", thief}).read(told.Body); err == nil {
		t.Error("the thief can read an alert")
	}
	o.exec(`DELETE FROM signal_devices WHERE name = 'thief'`)
	o.exec(`UPDATE signal_devices SET recipient = ?`, thief.Recipient().String())
	_, err = person.Ask(t.Context(), o.Ledger, person.Question{Asker: "builder", Question: "Deploy?", Encrypted: true})
	want.Code(t, err, orchestrator.Unavailable)
	if !strings.Contains(err.Error(), p.id) {
		t.Errorf("the error is %v", err)
	}
}

// TestApprove checks that a fingerprint is accepted in any form, and is compared with the key in the table, not with
// a fingerprint in the table.
func TestApprove(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	p := o.pair()
	for _, wrong := range []string{"", "0000", "0000-0000-0000-0000", p.fingerprint() + "0", strings.Repeat("-", 100)} {
		if _, err := person.Approve(t.Context(), o.Ledger, wrong); err == nil {
			t.Errorf("%q approves a device", wrong)
		}
	}
	for _, written := range []string{strings.ToLower(strings.ReplaceAll(p.fingerprint(), "-", "")),
		strings.ReplaceAll(p.fingerprint(), "-", " "), p.fingerprint()} {
		d, err := person.Approve(t.Context(), o.Ledger, written)
		if err != nil || d.ID != p.id || d.State != questions.DeviceActive {
			t.Errorf("%q: %+v, %v", written, d, err)
		}
	}
	o.exec(`INSERT INTO signal_devices (device_id, name, recipient, created_at) SELECT 'd-copy00000000', 'copy',
		recipient, created_at FROM signal_devices`)
	_, err := person.Approve(t.Context(), o.Ledger, p.fingerprint())
	want.Code(t, err, orchestrator.Conflict)
	o.exec(`DELETE FROM signal_devices WHERE name = 'copy'`)
	if _, err := person.Revoke(t.Context(), o.Ledger, p.id); err != nil {
		t.Fatal(err)
	}
	_, err = person.Approve(t.Context(), o.Ledger, p.fingerprint())
	want.Code(t, err, orchestrator.NotFound)
}

// TestApprovedWhileRevoked checks that no pin remains after an approval and a revocation at the same time.
func TestApprovedWhileRevoked(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	pinned := o.phone()
	o.whenAsked(func() { // the revocation has removed the pin, and not yet changed the table
		o.whenAsked(nil)
		pinned.pin()
	})
	if _, err := person.Revoke(t.Context(), o.Ledger, pinned.id); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		p := o.phone()
		approved := make(chan error)
		go func() {
			_, err := person.Approve(background, o.Ledger, p.fingerprint())
			approved <- err
		}()
		if _, err := person.Revoke(t.Context(), o.Ledger, p.id); err != nil {
			t.Error(err)
		}
		if err := <-approved; err != nil && orchestrator.CodeOf(err) != orchestrator.NotFound &&
			orchestrator.CodeOf(err) != orchestrator.Conflict {
			t.Error(err)
		}
	}
	if pins := o.files("devices"); len(pins) != 0 {
		t.Errorf("pinned are %v", pins)
	}
}

// pin writes the record of an approved device.
func (p *phone) pin() {
	pin := filepath.Join(p.o.Ledger.FilePrefix()+"-signal", "devices", p.id)
	if err := os.WriteFile(pin, []byte(`{"recipient":"`+p.identity.Recipient().String()+`"}`), 0o600); err != nil {
		p.o.t.Error(err)
	}
}

// TestRevoked checks that a revoked device cannot decrypt later questions, even if the table lists it as active
// again.
func TestRevoked(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	lost, kept := o.phone(), o.phone()
	before := o.ask()
	lost.mustRead(before.Body)
	if _, err := person.Revoke(t.Context(), o.Ledger, lost.id); err != nil {
		t.Fatal(err)
	}
	after := o.ask()
	kept.mustRead(after.Body)
	if _, err := lost.read(after.Body); err == nil || after.Devices != 1 {
		t.Errorf("the lost phone reads it: %v; devices: %d", err, after.Devices)
	}
	o.exec(`UPDATE signal_devices SET state = 'active'`)
	again := o.ask()
	if _, err := lost.read(again.Body); err == nil || !slices.Equal(again.Unused, []string{lost.id}) {
		t.Errorf("the lost phone reads it: %v; not used: %v", err, again.Unused)
	}
	_, err := person.Revoke(t.Context(), o.Ledger, "d-0000000000")
	want.Code(t, err, orchestrator.NotFound)
	_, err = person.Revoke(t.Context(), o.Ledger, "../devices/"+kept.id)
	want.Code(t, err, orchestrator.NotFound)
	o.ask()
}

// TestKeyFolder checks that keys that others can access, or that may not be ours, are not used.
func TestKeyFolder(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(folder, pin string) error{
		"others can enter":      func(folder, _ string) error { return os.Chmod(folder, 0o750) },
		"others can read a pin": func(_, pin string) error { return os.Chmod(pin, 0o640) },
		"the pin is a link": func(folder, pin string) error {
			if err := os.Rename(pin, filepath.Join(folder, "elsewhere")); err != nil {
				return err
			}
			return os.Symlink(filepath.Join("..", "elsewhere"), pin)
		},
		"the folder is a link": func(folder, _ string) error {
			if err := os.Rename(folder, folder+"-moved"); err != nil {
				return err
			}
			return os.Symlink(folder+"-moved", folder)
		},
		"a folder in it is a link": func(folder, _ string) error {
			if err := os.Rename(filepath.Join(folder, "devices"), filepath.Join(folder, "moved")); err != nil {
				return err
			}
			return os.Symlink("moved", filepath.Join(folder, "devices"))
		},
		"the pin is a folder": func(_, pin string) error {
			if err := os.Remove(pin); err != nil {
				return err
			}
			return os.Mkdir(pin, 0o700)
		},
		"another owns it": func(folder, _ string) error { return os.Chown(folder, 12345, -1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t)
			p := o.phone()
			folder := o.Ledger.FilePrefix() + "-signal"
			if err := spoil(folder, filepath.Join(folder, "devices", p.id)); err != nil {
				if name == "another owns it" && os.Geteuid() != 0 {
					t.Skip("only root can give files away")
				}
				t.Fatal(err)
			}
			_, err := person.Ask(ledger.WithIdentity(t.Context(), "builder"), o.Ledger,
				person.Question{Asker: "builder", Question: "Deploy?", Encrypted: true})
			want.Code(t, err, orchestrator.PermissionDenied)
			findings := person.Doctor(t.Context(), o.Ledger, false)
			if !slices.ContainsFunc(findings, func(f overview.Finding) bool {
				return f.Level == "problem" && strings.Contains(f.Says, folder) && f.Do != ""
			}) {
				t.Errorf("the doctor finds %+v", findings)
			}
		})
	}
}

// TestKeysAreTheOwners checks that other users can access nothing in the folder.
func TestKeysAreTheOwners(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	if _, err := person.Tell(ledger.WithIdentity(t.Context(), "builder"), o.Ledger,
		person.Alert{Sender: "builder", Message: "Done", Encrypted: true}); err != nil {
		t.Fatal(err)
	}
	o.phone()
	o.ask()
	err := filepath.WalkDir(o.Ledger.FilePrefix()+"-signal", func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("others can reach %s: %s", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestInvalid checks that an error names the invalid parameter, and does not repeat its value.
func TestInvalid(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.phone()
	const canary = "canary"
	for parameter, questions := range map[string][]person.Question{
		"question": {{Question: ""}, {Question: " \n"}, {Question: "\u200b"}, {Question: "\ufe0f\u3164 \u2800"},
			{Question: canary + strings.Repeat("ü", 1995)}, {Question: canary + "\xff"}, {Question: canary + "\x00"}},
		"context": {{Question: "x", Context: canary + strings.Repeat("ü", 495)}},
		"options": {
			{Question: "x", Options: []string{canary, " "}}, {Question: "x", Options: []string{canary, canary + " "}},
			{Question: "x", Options: []string{canary, "\u200b"}},
			{Question: "x", Options: []string{canary, canary + "\u200b"}},
			// The second of the next two lines contains a Cyrillic а.
			{Question: "x", Options: []string{canary + " 1", canary + "\u00a0\u20281"}},
			{Question: "x", Options: []string{canary, "cаnary"}},
			{Question: "x", Options: []string{canary + strings.Repeat("ü", 95)}},
			{Question: "x", Options: []string{canary, "2", "3", "4", "5", "6"}},
		},
		"priority": {{Question: "x", Priority: canary}},
		"ttl": {{Question: "x", TTL: time.Millisecond}, {Question: "x", TTL: -time.Hour},
			{Question: "x", TTL: 30*24*time.Hour + 1}},
	} {
		for _, q := range questions {
			q.Asker, q.Encrypted = "builder", true
			_, err := person.Ask(t.Context(), o.Ledger, q)
			want.Code(t, err, orchestrator.InvalidParams)
			if strings.Contains(err.Error(), canary) || !strings.HasPrefix(err.Error(), parameter+": ") {
				t.Errorf("the error is %v", err)
			}
		}
	}
	for parameter, alerts := range map[string][]person.Alert{
		"message":   {{Message: ""}, {Message: "\u200b"}, {Message: canary + strings.Repeat("x", 2000)}},
		"context":   {{Message: "x", Context: canary + strings.Repeat("x", 500)}},
		"alertType": {{Message: "x", Type: canary}},
		"priority":  {{Message: "x", Priority: canary}},
	} {
		for _, a := range alerts {
			a.Sender, a.Encrypted = "builder", true
			_, err := person.Tell(t.Context(), o.Ledger, a)
			want.Code(t, err, orchestrator.InvalidParams)
			if strings.Contains(err.Error(), canary) || !strings.HasPrefix(err.Error(), parameter+": ") {
				t.Errorf("the error is %v", err)
			}
		}
	}
	if _, err := person.Ask(ledger.WithIdentity(t.Context(), "builder"), o.Ledger,
		person.Question{Asker: "builder", Encrypted: true, Question: strings.Repeat("ü", 2000),
			Context: strings.Repeat("ü", 500), Options: []string{strings.Repeat("ü", 100), "2", "3", "4", "5"},
			TTL: 30 * 24 * time.Hour}); err != nil {
		t.Errorf("the largest question: %v", err)
	}
	for _, options := range [][]string{{"modem", "modern", "1", "l", "I"}, {"A", "a", "x²", "x2", "✓"},
		{"👩\u200d💻", "नहीं", "a\u0301", "a", "か"}} {
		if _, err := person.Ask(t.Context(), o.Ledger,
			person.Question{Asker: "builder", Encrypted: true, Question: "❤\ufe0f?", Options: options}); err != nil {
			t.Errorf("%q: %v", options, err)
		}
	}
}
