package router_test

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/daemons"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/sessions"
	"mailroom/orchestrator/store/postgres/postgrestest"
	"mailroom/orchestrator/transport"
)

// host opens the database as a host with the given name does.
func host(t *testing.T, name, path string) *delivery.Engine {
	t.Helper()
	e := enginetest.OpenWith(t, ledger.Options{
		Path: path, Host: name, Pulse: pulse, State: t.TempDir(), Log: slog.New(slog.DiscardHandler),
		Transports: map[string]orchestrator.Transport{
			"inbox": transport.Inbox{}, "jsonl": transport.JSONL{}, "dir": transport.Dir{}, "exec": transport.Exec{},
			"webhook": new(transport.Webhook),
		},
	})
	if _, err := e.Store.Create(); err != nil {
		t.Fatal(err)
	}
	return e
}

// TestTrustIsOfOneHost checks that a host that does not trust the database does not report that for agents of another
// host, because only the other host delivers to them.
func TestTrustIsOfOneHost(t *testing.T) {
	t.Parallel()
	address, file := postgrestest.Place(postgrestest.Start(t)), "jsonl:"+filepath.Join(t.TempDir(), "in")
	alpha := host(t, "alpha", address)
	beta := enginetest.OpenWith(t, ledger.Options{
		Path: address, Host: "beta", Pulse: pulse, State: t.TempDir(), Log: slog.New(slog.DiscardHandler),
		Trust:      &ledger.Trust{Folder: t.TempDir()},
		Transports: map[string]orchestrator.Transport{"inbox": transport.Inbox{}, "jsonl": transport.JSONL{}},
	})
	none := ""
	for _, u := range []agents.Update{{Name: "a"}, {Name: "there", Deliver: &file},
		{Name: "anywhere", Deliver: &file, Host: &none}} {
		if _, _, err := agents.Add(t.Context(), alpha.Ledger, u); err != nil {
			t.Fatal(err)
		}
	}
	for name, withheld := range map[string]int{"there": 0, "anywhere": 1} {
		sent, err := messages.Send(t.Context(), beta.Ledger, orchestrator.Draft{Sender: "a", Recipient: name})
		if err != nil || len(sent.Withheld) != withheld {
			t.Errorf("%s: withheld %v, %v", name, sent.Withheld, err)
		}
	}
	if did, err := beta.DeliverAll(t.Context(), delivery.Options{}); err != nil || did.Delivered != 0 {
		t.Errorf("on a host that does not trust it: %+v, %v", did, err)
	}
	if did, err := alpha.DeliverAll(t.Context(), delivery.Options{}); err != nil || did.Delivered != 2 {
		t.Errorf("where it is trusted: %+v, %v", did, err)
	}
}

// TestAgentsBelongToHosts checks that the attributes of an agent that need a machine decide which host delivers to
// it.
func TestAgentsBelongToHosts(t *testing.T) {
	t.Parallel()
	address, folder := postgrestest.Place(postgrestest.Start(t)), t.TempDir()
	alpha, beta := host(t, "alpha", address), host(t, "beta", address)
	file := "jsonl:" + filepath.Join(folder, "in")
	none, elsewhere, minute := "", "gamma", time.Minute
	yes, inbox, start, loopback, web := true, "inbox", "true", "webhook:http://127.0.0.1:1/",
		"webhook:https://example.com/"
	for _, step := range []struct {
		on     *delivery.Engine
		update agents.Update
		host   string
		code   orchestrator.Code
	}{
		{alpha, agents.Update{Name: "plain"}, "", ""},
		{alpha, agents.Update{Name: "filed", Deliver: &file}, "alpha", ""},
		{alpha, agents.Update{Name: "spare", Fallback: &file}, "alpha", ""},
		{beta, agents.Update{Name: "spare", Timeout: &minute}, "alpha", ""},
		{alpha, agents.Update{Name: "started", StartCommand: &start}, "alpha", ""},
		{beta, agents.Update{Name: "started", Deliver: &file}, "alpha", orchestrator.Conflict},
		{beta, agents.Update{Name: "started", Deliver: &file, StartCommand: &start}, "beta", ""},
		{alpha, agents.Update{Name: "near", Deliver: &loopback, AllowPrivate: &yes}, "alpha", ""},
		{alpha, agents.Update{Name: "near", Deliver: &web}, "", ""},
		{beta, agents.Update{Name: "filed", Host: &elsewhere}, "gamma", ""},
		{beta, agents.Update{Name: "filed", Host: &elsewhere, Deliver: &file}, "gamma", orchestrator.InvalidParams},
		{beta, agents.Update{Name: "filed", Deliver: &file}, "beta", ""},
		{beta, agents.Update{Name: "filed", Host: &none}, "", ""},
		{beta, agents.Update{Name: "filed", Deliver: &inbox}, "", ""},
	} {
		_, _, err := agents.Add(t.Context(), step.on.Ledger, step.update)
		if (err != nil || step.code != "") && orchestrator.CodeOf(err) != step.code {
			t.Errorf("%+v: %v", step.update, err)
		}
		a, err := agents.Get(t.Context(), alpha.Ledger, step.update.Name)
		if err != nil || a.Host != step.host {
			t.Errorf("after %+v on %s, it belongs to %q, not to %q; %v", step.update, step.on.Host(), a.Host, step.host,
				err)
		}
	}
	inFile := host(t, "alpha", filepath.Join(t.TempDir(), "a.db"))
	a, _, err := agents.Add(t.Context(), inFile.Ledger, agents.Update{Name: "b", Deliver: &file})
	if err != nil || a.Host != "" {
		t.Errorf("in a file, an agent belongs to %q; %v", a.Host, err)
	}
	_, _, err = agents.Add(t.Context(), inFile.Ledger, agents.Update{Name: "b", Host: &elsewhere})
	want.Code(t, err, orchestrator.InvalidParams)
}

// TestEachHostDeliversItsOwn checks two hosts with files of the same name. Each host writes only the messages for its
// own agents to its file, and delivers messages for other agents only to inboxes.
func TestEachHostDeliversItsOwn(t *testing.T) {
	t.Parallel()
	address := postgrestest.Place(postgrestest.Start(t))
	alpha, beta := host(t, "alpha", address), host(t, "beta", address)
	folder := t.TempDir()
	for _, on := range []*delivery.Engine{alpha, beta} {
		file, command, start := "jsonl:"+filepath.Join(folder, on.Host()),
			"exec:cat >> "+filepath.Join(folder, on.Host()), "true"
		for _, u := range []agents.Update{
			{Name: "f-" + on.Host(), Deliver: &file}, {Name: "c-" + on.Host(), Deliver: &command, Folder: folder},
			{Name: "s-" + on.Host(), StartCommand: &start, Folder: folder},
		} {
			if _, _, err := agents.Add(t.Context(), on.Ledger, u); err != nil {
				t.Fatal(err)
			}
		}
	}
	ids := map[string]string{}
	for _, name := range []string{"f-beta", "c-beta", "s-beta"} {
		sent, err := messages.Send(t.Context(), alpha.Ledger,
			orchestrator.Draft{Sender: "f-alpha", Recipient: name, Type: "note", Payload: json.RawMessage(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		ids[name] = sent.MessageID
	}
	did, err := alpha.DeliverAll(t.Context(), delivery.Options{})
	if err != nil || did.Delivered != 1 || len(did.Summary) != 1 || did.Summary[0].Recipient != "s-beta" {
		t.Errorf("the other host: %+v, %v", did, err)
	}
	if due, _, err := delivery.AnythingDue(t.Context(), alpha.Ledger); due || err != nil {
		t.Errorf("the other host finds something to do: %t, %v", due, err)
	}
	did, err = alpha.DeliverAll(t.Context(), delivery.Options{Recipient: "f-beta"})
	if err != nil || did.Delivered != 0 {
		t.Errorf("the other host, asked for one: %+v, %v", did, err)
	}
	for of, n := range map[*delivery.Engine]int{alpha: 0, beta: 1} {
		list, err := sessions.New(of.Ledger).Look(t.Context())
		wanted := 0
		for _, s := range list {
			if s.Wanted {
				wanted++
			}
			if !strings.HasSuffix(s.Agent, of.Host()) {
				t.Errorf("%s looks after the session of %s", of.Host(), s.Agent)
			}
		}
		if err != nil || wanted != n {
			t.Errorf("on %s, %d sessions are wanted, not %d; %v", of.Host(), wanted, n, err)
		}
	}
	saysNoRouter(t, alpha, ids["f-beta"])
	did, err = beta.DeliverAll(t.Context(), delivery.Options{})
	if err != nil || did.Delivered != 2 {
		t.Errorf("its own host: %+v, %v", did, err)
	}
	written, err := os.ReadFile(filepath.Join(folder, "beta"))
	if err != nil || !strings.Contains(string(written), ids["f-beta"]) ||
		!strings.Contains(string(written), ids["c-beta"]) {
		t.Errorf("written: %q, %v", written, err)
	}
	if _, err := os.Stat(filepath.Join(folder, "alpha")); err == nil {
		t.Error("the other host has written")
	}
}

// saysNoRouter checks what is reported about a message to an agent of host beta, without a daemon on beta and with
// one.
func saysNoRouter(t *testing.T, alpha *delivery.Engine, id string) {
	t.Helper()
	look := func(rule, fix, level string) {
		t.Helper()
		why, err := overview.Why(t.Context(), alpha.Ledger, id)
		if err != nil || len(why) != 1 || !strings.Contains(why[0].Rule, rule) || !strings.Contains(why[0].Fix, fix) {
			t.Errorf("why: %+v, %v", why, err)
		}
		found := overview.Doctor(t.Context(), alpha.Ledger, overview.DoctorOptions{})
		i := slices.IndexFunc(found, func(f overview.Finding) bool { return f.About == "beta" })
		if i < 0 || found[i].Level != level {
			t.Errorf("the doctor: %+v", found)
		}
	}
	look("is on the host beta, but no daemon runs on that host",
		"`mailroom serve` on beta, or, if the files and commands of the agent are now on this machine, run `mailroom agent add f-beta --host alpha`", "problem")
	daemon := host(t, "beta", alpha.Path())
	if err := daemons.Beat(t.Context(), daemon.Ledger, ""); err != nil {
		t.Fatal(err)
	}
	look("is on the host beta, and a daemon on that host delivers the message", "No action needed", "ok")
}
