package ledger_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/questions"
	"mailroom/orchestrator/schedules"
	"mailroom/orchestrator/sessions"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/transport"
)

// openWith opens a file as the program of a user whose trust records are in a folder.
func openWith(t *testing.T, path, folder string) *delivery.Engine {
	t.Helper()
	return enginetest.OpenWith(t, ledger.Options{
		Path: path, Bell: store.NewLocalBell(), Trust: &ledger.Trust{Folder: folder},
		Transports: map[string]orchestrator.Transport{"inbox": transport.Inbox{}, "jsonl": transport.JSONL{}},
	})
}

// made creates a database with the contents that it has on the machine of its creation.
func made(t *testing.T, r *delivery.Engine) {
	t.Helper()
	if _, err := r.Store.Create(); err != nil {
		t.Fatal(err)
	}
}

func reasonOf(t *testing.T, r *delivery.Engine) string {
	t.Helper()
	s, err := schedules.Trusted(t.Context(), r.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	if s.Trusted != (s.Reason == "") {
		t.Errorf("%+v", s)
	}
	return s.Reason
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestOnlyWhatWasMadeHereIsTrusted checks that a database is trusted without further action only if this user's
// program created it, and only where it was created. The record of the trust is readable only by the user.
func TestOnlyWhatWasMadeHereIsTrusted(t *testing.T) {
	t.Parallel()
	const elsewhere = "that this user created the database on this machine"
	for name, c := range map[string]struct {
		make func(t *testing.T, folder string) (path string)
		says string // "" means trusted
	}{
		"made here": {func(t *testing.T, folder string) string {
			path := filepath.Join(t.TempDir(), "new", "mailroom.db")
			made(t, openWith(t, path, folder))
			return path
		}, ""},
		"made here, reached through a link": {func(t *testing.T, folder string) string {
			real, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
			if err := os.Symlink(real, link); err != nil {
				t.Fatal(err)
			}
			made(t, openWith(t, filepath.Join(link, "mailroom.db"), folder))
			return filepath.Join(real, "mailroom.db")
		}, ""},
		"made elsewhere": {func(t *testing.T, _ string) string {
			path := filepath.Join(t.TempDir(), "mailroom.db")
			made(t, openWith(t, path, t.TempDir()))
			return path
		}, elsewhere},
		"of an older version": {func(t *testing.T, _ string) string { return enginetest.OldVersion(t) }, elsewhere},
		"the document's table": {func(t *testing.T, _ string) string {
			path := filepath.Join(t.TempDir(), "mailroom.db")
			if _, err := enginetest.Plain(t, path).Exec(enginetest.DocumentTable); err != nil {
				t.Fatal(err)
			}
			return path
		}, elsewhere},
		"a copy": {func(t *testing.T, folder string) string {
			path, copied := filepath.Join(t.TempDir(), "mailroom.db"), filepath.Join(t.TempDir(), "mailroom.db")
			r := openWith(t, path, folder)
			made(t, r)
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			copyFile(t, path, copied)
			return copied
		}, "/mailroom.db, but not at this address: it was copied or moved"},
		"without an id": {func(t *testing.T, folder string) string {
			path := filepath.Join(t.TempDir(), "mailroom.db")
			made(t, openWith(t, path, folder))
			if _, err := enginetest.Plain(t, path).Exec(`DELETE FROM settings WHERE key = 'database.id'`); err != nil {
				t.Fatal(err)
			}
			return path
		}, elsewhere},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := filepath.Join(t.TempDir(), "state", "trusted")
			path := c.make(t, folder)
			r := openWith(t, path, folder)
			made(t, r)
			if says := reasonOf(t, r); (says == "") != (c.says == "") || !strings.Contains(says, c.says) {
				t.Errorf("it says %q; want %q", says, c.says)
			}
			if _, err := schedules.SetTrusted(t.Context(), r.Ledger, true); err != nil {
				t.Fatal(err)
			}
			want.Equal(t, "trusted, it says", reasonOf(t, r), "")
			entries, err := os.ReadDir(folder)
			if err != nil || len(entries) == 0 {
				t.Fatalf("%d files, %v", len(entries), err)
			}
			for _, path := range []string{folder, filepath.Join(folder, entries[0].Name())} {
				info, err := os.Stat(path)
				if err != nil || info.Mode().Perm()&0o077 != 0 {
					t.Errorf("%s: %v, %v", path, info.Mode(), err)
				}
			}
			if _, err := schedules.SetTrusted(t.Context(), r.Ledger, false); err != nil {
				t.Fatal(err)
			}
			if reasonOf(t, r) == "" {
				t.Error("it is trusted though that was taken back")
			}
		})
	}
}

// TestTrustThatCannotBeKept checks that a database is created and works even if trust in it cannot be recorded, but
// is then not trusted.
func TestTrustThatCannotBeKept(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, folder := range map[string]string{"no folder": "", "a file": filepath.Join(file, "trusted")} {
		r := openWith(t, filepath.Join(t.TempDir(), "mailroom.db"), folder)
		made(t, r)
		if reasonOf(t, r) == "" {
			t.Errorf("%s: it is trusted", name)
		}
		_, err := schedules.SetTrusted(t.Context(), r.Ledger, true)
		want.Code(t, err, orchestrator.Unavailable)
	}
}

// stranger returns a database from elsewhere, opened by two processes of this user; the second is f.Engine.
func stranger(t *testing.T) (f *enginetest.Fixture, first *delivery.Engine) {
	t.Helper()
	f = enginetest.New(t, "a", "b")
	f.AddWired("out")
	f.AddWired("down")
	target, fallback := "wire:gone", "jsonl:"+filepath.Join(t.TempDir(), "fallback.jsonl")
	f.Add(agents.Update{Name: "spare", Deliver: &target, Fallback: &fallback})
	f.Add(agents.Update{Name: "b", Fallback: &fallback})
	f.SQL(`UPDATE agents SET disabled = 'since then' WHERE name = 'spare'`)
	f.Trust = &ledger.Trust{Folder: t.TempDir()}
	first, f.Engine = f.Open(), f.Open()
	return f, first
}

// TestUntrustedDatabaseStaysInside checks that a database that is not trusted delivers into inboxes and does nothing
// else. It makes no attempt through another transport, including fallbacks and marks, it uses up no retries, and it
// wakes nobody. All of this happens once the database is trusted, also in processes that already have it open.
func TestUntrustedDatabaseStaysInside(t *testing.T) {
	t.Parallel()
	f, first := stranger(t)
	allow := f.Forbid("INSERT", "agent_inbox", `new.message_id = 'refused'`, "no")
	f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, payload) VALUES ('refused', 'a', 'b', '1'),
		('marked', 'a', 'a', '1'), ('late', 'a', 'down', '1')`)
	ids := []string{f.Send("a", "out"), f.Send("a", "spare"), f.Send("a", orchestrator.User), f.Send("a", "b")}
	want.Equal(t, "delivered", f.Deliver().Delivered, 2) // marked has no mark yet
	f.SQL(`UPDATE agent_message SET status = 'pending', traced_status = 'pending', delivery_marks = '{"wire:x":"there"}'
		WHERE message_id = 'marked'`)
	f.SQL(`UPDATE agent_message SET status = 'retry', traced_status = 'retry',
		next_attempt_at = '2026-01-01T00:00:00.000Z' WHERE message_id = 'late'`)
	for range 3 {
		want.Equal(t, "delivered, and failed", len(f.Deliver().Summary), 0)
	}
	want.Equal(t, "attempts outside", len(f.Wire.IDs())+len(f.User.IDs()), 0)
	want.Rows(t, f.Rows(`SELECT message_id, status, retry_count, lease_token = '' FROM agent_message
		WHERE recipient <> 'b' AND status <> 'delivered' AND sender = 'a' AND message_id < 'msg' ORDER BY 1`),
		"late retry 0 1", "marked pending 0 1")
	state, err := overview.Status(t.Context(), f.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	if next := state.NextDueAt; next != "" && next <= "2026-01-02T03:04:05.000Z" {
		t.Errorf("somebody is woken at %s for what waits", next)
	}
	if !strings.Contains(state.Untrusted, "that this user created the database on this machine") {
		t.Errorf("the status says %q", state.Untrusted)
	}
	trials, err := delivery.TryTransports(t.Context(), f.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	for _, trial := range trials {
		if inbox := trial.Deliver == "inbox"; trial.Delivered != inbox {
			t.Errorf("%+v", trial)
		}
	}
	if list, err := sessions.New(f.Ledger).Look(t.Context()); err != nil || list != nil {
		t.Errorf("sessions: %v %v", list, err)
	}
	_, err = questions.SignalURL(t.Context(), f.Ledger)
	want.Code(t, err, orchestrator.Unavailable)
	reasons, err := overview.Why(t.Context(), f.Ledger, ids[0])
	if err != nil || !strings.Contains(reasons[0].Rule, ledger.NotTrusted) {
		t.Errorf("why: %+v %v", reasons, err)
	}

	allow()
	if _, err := schedules.SetTrusted(t.Context(), first.Ledger, true); err != nil {
		t.Fatal(err)
	}
	f.Deliver()
	for _, id := range append(ids, "marked", "late", "refused") {
		want.Equal(t, "the status of "+id+" once it is trusted", f.Message(id).Status, orchestrator.Delivered)
	}
	if len(f.Wire.IDs()) == 0 || len(f.User.IDs()) != 1 {
		t.Errorf("%v went out, %v to the user", f.Wire.IDs(), f.User.IDs())
	}
}

// TestUntrustedSchedules checks that in a database that is not trusted, only the schedules that every database has
// run, and only if they are unchanged from the presets.
func TestUntrustedSchedules(t *testing.T) {
	t.Parallel()
	f, _ := stranger(t)
	f.SQL(`INSERT INTO schedules (name, spec, command, params, created_at)
		VALUES ('own', '@every 1s', 'backup', '{"file":"/x"}', '')`)
	f.SQL(`UPDATE schedules SET command = 'backup' WHERE name = 'clear_old'`)
	names := func() string {
		t.Helper()
		list, _, err := schedules.Runnable(t.Context(), f.Ledger)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, s := range list {
			names = append(names, s.Name)
		}
		return strings.Join(names, " ")
	}
	want.Equal(t, "schedules", names(), "checkpoint clear_traces deliver_all deliver_on_doorbell")
	if _, err := schedules.SetTrusted(t.Context(), f.Ledger, true); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "schedules once it is trusted", names(),
		"checkpoint clear_old clear_traces deliver_all deliver_on_doorbell own")
}

// TestRestoredFromElsewhereIsNotTrusted checks that a backup of the database itself is trusted as before; a backup of
// another contains what somebody else wrote.
func TestRestoredFromElsewhereIsNotTrusted(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(t.TempDir(), "mailroom.db")
	r, other := openWith(t, path, folder), openWith(t, filepath.Join(t.TempDir(), "other.db"), folder)
	made(t, r)
	made(t, other)
	for _, c := range []struct {
		of      *delivery.Engine
		trusted bool
	}{{r, true}, {other, false}} {
		backup := filepath.Join(t.TempDir(), "backup.db")
		if _, err := c.of.BackupTo(t.Context(), backup, false); err != nil {
			t.Fatal(err)
		}
		done, err := r.Restore(t.Context(), backup, true)
		if err != nil {
			t.Fatal(err)
		}
		if trusted := reasonOf(t, r) == ""; trusted != c.trusted || trusted != (done.Untrusted == "") {
			t.Errorf("the backup of %s: trusted %t, and %q", c.of.Path(), trusted, done.Untrusted)
		}
	}
}

// TestTriggersOfStrangersStayInside checks that views and triggers that somebody put into a database cannot use
// functions and tables with effects outside of SQL, because these are refused there. The triggers of Mailroom's own
// views do not need them.
func TestTriggersOfStrangersStayInside(t *testing.T) {
	t.Parallel()
	enginetest.OfAFile(t, "a server lets nobody make triggers on tables of others")
	f := enginetest.New(t, "a")
	for _, statement := range []string{
		`CREATE TRIGGER bad AFTER INSERT ON agent_message BEGIN SELECT load_extension('/tmp/x'); END`,
		`CREATE TRIGGER bad AFTER INSERT ON agent_message BEGIN SELECT count(*) FROM pragma_database_list; END`,
	} {
		f.SQL(statement)
		_, err := messages.Send(t.Context(), f.Ledger,
			orchestrator.Draft{Sender: "a", Recipient: "a", Type: "note", Payload: []byte("1")})
		if err == nil || !strings.Contains(err.Error(), "unsafe use of") {
			t.Errorf("%s: %v", statement, err)
		}
		f.SQL(`DROP TRIGGER bad`)
	}
	f.ViewInboxes("a")
	strict := enginetest.Plain(t, f.Path)
	strict.SetMaxOpenConns(1)
	for _, statement := range []string{
		`PRAGMA trusted_schema = OFF`, `INSERT INTO a_inbox (message_id, payload) VALUES ('m', '1')`,
		`DELETE FROM a_inbox`,
	} {
		if _, err := strict.Exec(statement); err != nil {
			t.Errorf("%s: %v", statement, err)
		}
	}
}
