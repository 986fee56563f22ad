package bridge_test

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/bridge"
	"mailroom/orchestrator/bridge/letters"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/want"
)

func (o *office) sendTo(recipient string, n int) {
	o.T.Helper()
	for range n {
		_, err := messages.Send(o.T.Context(), o.Ledger,
			orchestrator.Draft{Sender: "pm", Recipient: recipient, Type: "note", Payload: []byte(`{}`)})
		must(o.T, err)
	}
}

func (o *office) unacknowledged() int {
	o.T.Helper()
	return o.count(`SELECT count(*) FROM agent_message WHERE status = 'delivered' AND acknowledged_at = ''`)
}

// TestMovedRoot checks that the files of a moved root still belong to their recipients. A watch over the new place,
// or over a copy, removes nothing. Once the agent reads there, the messages whose files it removes are
// acknowledged.
func TestMovedRoot(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "pm", "qa:")
	o.sendTo("qa", 2)
	o.once()
	o.write(note("m1", "pm", "qa"), "qa", "m1.json")
	want.Equal(t, "taken in", o.once().TakenIn, 1)
	old := o.root
	o.root += "-moved"
	must(t, os.Rename(old, o.root))
	want.Equal(t, "problems while qa reads elsewhere", o.once().Problems, 3)
	want.Equal(t, "files", len(readNames(t, o.path("qa"))), 3)
	o.add("qa:")
	got := o.once()
	want.Equal(t, "problems", got.Problems, 0)
	want.Equal(t, "acknowledged", got.Acknowledged, 0)
	want.Equal(t, "files", len(readNames(t, o.path("qa"))), 3)
	want.Equal(t, "unacknowledged", o.unacknowledged(), 3)
	in, err := letters.Read(t.Context(), o.Ledger, letters.Request{Agent: "qa", Target: "dir:" + o.root, Limit: 10})
	must(t, err)
	want.Equal(t, "in the inbox", len(in.Messages), 3)
	for _, name := range readNames(t, o.path("qa")) {
		must(t, os.Remove(o.path("qa", name)))
	}
	want.Equal(t, "acknowledged in the end", o.once().Acknowledged, 3)
}

// TestCopiedFolder checks that a recreated folder with its files, copied or original, does not count as gone.
func TestCopiedFolder(t *testing.T) {
	t.Parallel()
	for how, back := range map[string]func(o *office) error{
		"copied": func(o *office) error { return exec.Command("cp", "-a", o.path("kept")+"/.", o.path("qa")).Run() },
		"moved": func(o *office) error {
			for _, name := range readNames(o.T, o.path("kept")) {
				must(o.T, os.Rename(o.path("kept", name), o.path("qa", name)))
			}
			return nil
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t, "pm", "qa:")
			o.sendTo("qa", 3)
			w := o.watch(20 * time.Millisecond)
			w.until(func() bool { return o.unacknowledged() == 3 })
			must(t, os.Rename(o.path("qa"), o.path("kept")))
			w.until(func() bool { return o.log.told("the folder with 3 delivered messages was removed") == 1 })
			must(t, os.Mkdir(o.path("qa"), 0o700))
			must(t, back(o))
			must(t, os.RemoveAll(o.path("kept")))
			w.until(func() bool { return o.count(`SELECT count(*) FROM bridge_problems`) == 0 })
			want.Equal(t, "unacknowledged", o.unacknowledged(), 3)
			for _, name := range readNames(t, o.path("qa")) {
				must(t, os.Remove(o.path("qa", name)))
			}
			w.until(func() bool { return o.unacknowledged() == 0 })
		})
	}
}

// TestRenamedInPlace checks that a file that was renamed after its import does not count as removed.
func TestRenamedInPlace(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "pm", "qa:")
	o.write(note("m1", "pm", "qa"), "qa", "tmp.json")
	want.Equal(t, "taken in", o.once().TakenIn, 1)
	must(t, os.Rename(o.path("qa", "tmp.json"), o.path("qa", "m1.json")))
	want.Equal(t, "acknowledged", o.once().Acknowledged, 0)
	must(t, os.Remove(o.path("qa", "m1.json")))
	want.Equal(t, "acknowledged", o.once().Acknowledged, 1)
}

// TestMendedElsewhere checks that a running watch imports a file once a cause outside the file is gone that
// prevented its import: a permission, a strict route, an agent's role.
func TestMendedElsewhere(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "pm", "alice", "qa:")
	set := func(value string) {
		t.Helper()
		_, err := o.SetSetting(t.Context(), "ralph.strict_routes", value)
		must(t, err)
	}
	set("on")
	question := func(id string) string {
		return `{"id":"` + id + `","from":"pm","to":"qa","type":"question","payload":{"taskId":"t","question":"q"}}`
	}
	o.write(question("m1"), "qa", "m1.json")
	w := o.watch(20 * time.Millisecond)
	w.until(func() bool { return o.log.told("m1.json") == 1 })
	role := "pm"
	_, _, err := agents.Add(t.Context(), o.Ledger, agents.Update{Name: "qa", Role: &role})
	must(t, err)
	w.until(func() bool { return o.unacknowledged() == 1 })
	role = "qa"
	_, _, err = agents.Add(t.Context(), o.Ledger, agents.Update{Name: "qa", Role: &role})
	must(t, err)
	o.write(question("m2"), "qa", "m2.json")
	w.until(func() bool { return o.log.told("m2.json") == 1 })
	set("off")
	w.until(func() bool { return o.unacknowledged() == 2 })
	if os.Geteuid() != 0 { // the superuser may read everything
		o.write(note("m3", "pm", "qa"), "qa", "m3.json")
		must(t, os.Chmod(o.path("qa", "m3.json"), 0))
		w.until(func() bool { return o.log.told("m3.json") == 1 })
		must(t, os.Chmod(o.path("qa", "m3.json"), 0o600))
		w.until(func() bool { return o.unacknowledged() == 3 })
	}
}

// TestStatusUpdateToAnybody checks that a status_update sets its sender's presence, whoever it is for.
func TestStatusUpdateToAnybody(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "pm:", "developer")
	o.write(`{"id":"m1","from":"developer","to":"pm","type":"status_update","payload":{"agent":"developer","status":"idle"}}`, "pm", "m1.json")
	want.Equal(t, "acknowledged", o.once().Acknowledged, 0)
	o.wantRows(`SELECT agent, status FROM presence`, "developer idle")
}

// TestSwappedFolder checks that files are found again in another folder that replaces theirs between two checks.
func TestSwappedFolder(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "pm", "qa:")
	o.sendTo("qa", 3)
	o.once()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	options, looks := o.options(), 0
	options.Rescan = 20 * time.Millisecond
	options.Looked = func() { // the watch waits here
		switch looks++; {
		case looks == 1:
			must(t, os.Rename(o.path("qa"), o.path(".kept")))
			must(t, os.Mkdir(o.path("qa"), 0o700))
			for _, name := range readNames(t, o.path(".kept")) {
				must(t, os.Rename(o.path(".kept", name), o.path("qa", name)))
			}
		case looks == 2:
			for _, name := range readNames(t, o.path("qa")) {
				must(t, os.Remove(o.path("qa", name)))
			}
		case o.unacknowledged() == 0 || o.log.told("is gone") > 0:
			cancel()
		}
	}
	_, err := bridge.Run(ctx, o.Engine, options)
	must(t, err)
	want.Equal(t, "unacknowledged", o.unacknowledged(), 0)
}
