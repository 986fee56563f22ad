package bridge_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/bridge"
	"mailroom/orchestrator/letter"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/want"
)

// examples are document 002's messages, as its agents write them.
var examples = map[string]string{
	"msg-developer-20250123-120000-001": `"from": "pm",
  "to": "developer",
  "type": "task_assign",
  "priority": "normal",
  "payload": {
    "taskId": "feat-001",
    "title": "Feature title",
    "description": "Description...",
    "acceptanceCriteria": [
      "one",
      "two"
    ],
    "worktree": "path/to/worktree"
  },`,
	"msg-qa-20250123-120005-001": `"from": "developer",
  "to": "qa",
  "type": "implementation_complete",
  "priority": "high",
  "payload": {
    "taskId": "feat-001",
    "summary": "Brief summary",
    "commitHash": "abc123",
    "branch": "developer-worktree",
    "filesModified": [
      "file1.ts",
      "file2.ts"
    ]
  },`,
	"msg-pm-20250123-120010-001": `"from": "qa",
  "to": "pm",
  "type": "validation_passed",
  "priority": "low",
  "payload": {
    "taskId": "feat-001",
    "results": {
      "typecheck": "pass",
      "lint": "pass",
      "test": "pass",
      "build": "pass"
    }
  },`,
	"msg-developer-20250123-120010-001": `"from": "qa",
  "to": "developer",
  "type": "bug_report",
  "priority": "urgent",
  "payload": {
    "taskId": "feat-001",
    "bugs": [
      { "file": "file.ts", "line": 10, "issue": "Bug description" }
    ]
  },`,
	"msg-pm-20250123-120011-001": `"from": "developer",
  "to": "pm",
  "type": "question",
  "priority": "normal",
  "payload": {
    "taskId": "feat-001",
    "question": "Question text..."
  },`,
	"msg-developer-20250123-120012-001": `"from": "pm",
  "to": "developer",
  "type": "answer",
  "priority": "normal",
  "payload": {
    "questionId": "...",
    "answer": "Answer text..."
  },`,
	"msg-watchdog-20250123-120013-001": `"from": "developer",
  "to": "watchdog",
  "type": "status_update",
  "priority": "normal",
  "payload": {
    "agent": "developer",
    "status": "working",
    "taskId": "feat-001"
  },`,
}

// TestExamplesPassUnchanged checks that each of document 002's messages, dropped into one root, arrives in another,
// byte for byte.
func TestExamplesPassUnchanged(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	other := filepath.Join(filepath.Dir(o.root), "other")
	deliver := "dir:" + other
	for _, name := range []string{"pm", "developer", "qa", "watchdog"} {
		_, _, err := agents.Add(t.Context(), o.Ledger, agents.Update{Name: name, Deliver: &deliver})
		must(t, err)
	}
	files := map[string]string{}
	for id, middle := range examples {
		to := strings.Split(id, "-")[1]
		files[filepath.Join(to, id+".json")] = fmt.Sprintf(`{
  "id": %q,
  %s
  "timestamp": "2025-01-23T12:00:00.1234567Z",
  "status": "pending",
  "replyTo": null
}`, id, middle)
	}
	for path, text := range files {
		o.write(text, path)
	}
	options := o.options()
	options.Name = "guard" // so that the status update is an ordinary message
	got, err := bridge.Once(t.Context(), o.Engine, options)
	must(t, err)
	want.Equal(t, "counts", got, bridge.Counts{TakenIn: len(files), Delivered: len(files)})
	for path, text := range files {
		arrived, err := os.ReadFile(filepath.Join(other, path))
		must(t, err)
		want.Equal(t, path, string(arrived), text)
		want.Equal(t, path+" is still in the first root", o.exists(path), false)
	}
}

// TestDeliveredFilesAreKnown checks that files written by the dir transport are not imported, and are acknowledged
// when their recipient has removed them, even those that could not be imported.
func TestDeliveredFilesAreKnown(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "pm", "developer:")
	list := strings.TrimSuffix(strings.Repeat("1,", 500_000), ",")
	for _, d := range []orchestrator.Draft{
		{Type: "note", Payload: []byte(`{"n":1}`)},
		{Type: "question", Payload: []byte(`null`)}, // not a valid payload of a question
		{Type: "note", Payload: []byte(`{"n":[` + list + `]}`)},
	} {
		d.Sender, d.Recipient = "pm", "developer"
		_, err := messages.Send(t.Context(), o.Ledger, d)
		must(t, err)
	}
	want.Equal(t, "counts", o.once(), bridge.Counts{Delivered: 3})
	entries, err := os.ReadDir(o.path("developer"))
	must(t, err)
	want.Equal(t, "files", len(entries), 3)
	for _, e := range entries {
		o.age(o.path("developer", e.Name()))
	}
	want.Equal(t, "counts of the next", o.once(), bridge.Counts{})
	for i, e := range entries {
		must(t, os.Remove(o.path("developer", e.Name())))
		want.Equal(t, fmt.Sprint("counts after removal ", i), o.once(), bridge.Counts{Acknowledged: 1})
	}
	o.wantRows(`SELECT count(*) FROM agent_message WHERE acknowledged_at <> '' AND read_at <> ''`, "3")
}

// TestOnlyWhatWasDeliveredIsAcknowledged checks that no message is acknowledged that is undelivered or was
// delivered elsewhere, because it has no file here.
func TestOnlyWhatWasDeliveredIsAcknowledged(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "pm", "developer:", "qa")
	send := func(to string) string {
		sent, err := messages.Send(t.Context(), o.Ledger,
			orchestrator.Draft{Sender: "pm", Recipient: to, Type: "note", Payload: []byte(`{}`)})
		must(t, err)
		return sent.MessageID
	}
	for range 3 {
		send("qa")
	}
	send("developer")
	o.once()
	lines := "jsonl:" + filepath.Join(filepath.Dir(o.root), "lines")
	_, _, err := agents.Add(t.Context(), o.Ledger, agents.Update{Name: "developer", Deliver: &lines})
	must(t, err)
	send("developer")
	want.Equal(t, "delivered as a line", o.once().Delivered, 1)
	o.add("developer:")
	pending := send("developer")
	want.Equal(t, "acknowledged", o.once().Acknowledged, 0)
	must(t, os.Remove(o.path("developer", pending+".json")))
	want.Equal(t, "acknowledged", o.once().Acknowledged, 1)
	o.wantRows(`SELECT message_id FROM agent_message WHERE acknowledged_at <> ''`, pending)
}

// TestAnswersKeepWhatTheyAnswer checks that a replyTo that names a known message becomes a reference, and that any
// other is kept as text.
func TestAnswersKeepWhatTheyAnswer(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "pm:", "developer:")
	o.write(note("q1", "pm", "developer"), "developer", "q1.json")
	o.write(strings.Replace(note("a1", "developer", "pm"), `"replyTo": null`, `"replyTo": "q1"`, 1), "pm", "a1.json")
	o.write(strings.Replace(note("a2", "developer", "pm"), `"replyTo": null`, `"replyTo": "unheard-of"`, 1), "pm",
		"a2.json")
	want.Equal(t, "taken in", o.once().TakenIn, 3)
	o.wantRows(`SELECT message_id, reply_to, hops FROM agent_message WHERE recipient = 'pm' ORDER BY message_id`,
		"a1 q1 1", "a2 <nil> 0")
	ms, err := messages.Find(t.Context(), o.Ledger, "a2")
	must(t, err)
	want.Equal(t, "replyTo as it leaves", letter.Of(&ms[0]).ReplyTo, "unheard-of")
}

// TestStatusUpdates checks that the watch handles status updates to its own agent, whatever that agent's transport,
// and that they set their sender's presence.
func TestStatusUpdates(t *testing.T) {
	t.Parallel()
	for _, watchdog := range []string{"", "watchdog", "watchdog:"} {
		t.Run("transport of "+watchdog, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t, "developer")
			if watchdog != "" {
				o.add(watchdog)
			}
			update := func(id, status string) {
				o.write(fmt.Sprintf(`{"id":%q,"from":"Developer","to":"watchdog","type":"status_update","payload":{"agent":"developer","status":%q}}`,
					id, status), "watchdog", id+".json")
			}
			_, _, err := agents.Add(t.Context(), o.Ledger,
				agents.Update{Name: "developer", SilentAfter: new(time.Minute)})
			must(t, err)
			for _, status := range []string{"working", "idle", "working"} {
				id := fmt.Sprintf("%s-%d", status, len(o.Rows(`SELECT 1 FROM agent_message`)))
				update(id, status)
				want.Equal(t, "counts", o.once(), bridge.Counts{TakenIn: 1, Acknowledged: 1})
				o.wantRows(`SELECT session_id, agent, status FROM presence`, "default developer "+status)
				want.Equal(t, "the file is there", o.exists("watchdog", id+".json"), false)
				o.wantRows(`SELECT agent, silent_at <> '' FROM heartbeats`,
					fmt.Sprint("developer ", map[string]int{"working": 1}[status]))
			}
			o.wantRows(`SELECT DISTINCT status, acknowledged_at <> '' FROM agent_message`, "delivered 1")
			o.wantRows(`SELECT group_concat(event, ' ')
				FROM (SELECT event FROM message_trace WHERE message_id = 'working-0' ORDER BY id)`,
				"created delivered read acknowledged")
			update("working-0", "working") // again, as after a kill before the file was removed
			want.Equal(t, "counts of a repeat", o.once(), bridge.Counts{})
			want.Equal(t, "the file is there", o.exists("watchdog", "working-0.json"), false)
		})
	}
}

// TestStatusUpdatesByTheTable checks that the watch also handles a status update that was delivered as a file
// because its agent reads its folder.
func TestStatusUpdatesByTheTable(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "developer", "watchdog:")
	_, err := messages.Send(t.Context(), o.Ledger,
		orchestrator.Draft{Sender: "developer", Recipient: "watchdog", Type: "status_update",
			Payload: []byte(`{"agent":"developer","status":"idle"}`)})
	must(t, err)
	want.Equal(t, "delivered", o.once().Delivered, 1)
	want.Equal(t, "problems", o.once().Problems, 0)
	o.wantRows(`SELECT status, acknowledged_at <> '' FROM agent_message`, "delivered 1")
	entries, err := os.ReadDir(o.path("watchdog"))
	must(t, err)
	want.Equal(t, "files", len(entries), 0)
}

// TestStrictRoutes checks that with the setting on, a file that does not follow the route of its type is a problem.
func TestStrictRoutes(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "pm", "developer:")
	_, err := o.SetSetting(t.Context(), "ralph.strict_routes", "on")
	must(t, err)
	o.write(`{"id":"q1","from":"pm","to":"developer","type":"question","payload":{"taskId":"f","question":"?"}}`,
		"developer", "q1.json")
	want.Equal(t, "counts", o.once(), bridge.Counts{Problems: 1})
}

// TestHardLinks checks that two names of one file are one message.
func TestHardLinks(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "pm", "developer:", "qa")
	o.write(note("m1", "pm", "developer"), "developer", "one.json")
	must(t, os.Link(o.path("developer", "one.json"), o.path("developer", "two.json")))
	o.write(note("m2", "pm", "qa"), "qa", "one.json")
	must(t, os.Link(o.path("qa", "one.json"), o.path("qa", "two.json")))
	want.Equal(t, "counts", o.once(), bridge.Counts{TakenIn: 2, Delivered: 1})
	want.Equal(t, "counts", o.once(), bridge.Counts{})
	entries, err := os.ReadDir(o.path("qa"))
	must(t, err)
	want.Equal(t, "files of qa", len(entries), 0)
}

// TestAFolderThatIsGone checks that messages delivered into a folder that was removed or recreated are not
// acknowledged. That is reported once for each folder. Messages delivered into the new folder are acknowledged as
// usual.
func TestAFolderThatIsGone(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "pm", "developer:")
	folder := o.path("developer")
	for round := 1; round <= 2; round++ {
		for i := range 3 {
			id := fmt.Sprintf("m%d-%d", round, i)
			o.write(note(id, "pm", "developer"), "developer", id+".json")
		}
		want.Equal(t, "taken in", o.once().TakenIn, 3)
		must(t, os.RemoveAll(folder))
		if round == 2 {
			must(t, os.Mkdir(folder, 0o700))
		}
		for range 2 {
			got := o.once()
			want.Equal(t, "acknowledged", got.Acknowledged, 0)
			want.Equal(t, "problems", got.Problems, 1)
		}
		want.Equal(t, "warnings", o.log.told(folder), round)
	}
	problem := o.Rows(`SELECT path, problem FROM bridge_problems`)
	if len(problem) != 1 || !strings.Contains(problem[0], "the folder with 6 delivered messages") {
		t.Errorf("got %q", problem)
	}
	o.write(note("m3", "pm", "developer"), "developer", "m3.json")
	want.Equal(t, "taken in", o.once().TakenIn, 1)
	must(t, os.Remove(o.path("developer", "m3.json")))
	want.Equal(t, "acknowledged", o.once().Acknowledged, 1)
	for _, id := range o.Rows(`SELECT message_id FROM agent_message WHERE acknowledged_at = ''`) {
		_, err := messages.Acknowledge(t.Context(), o.Ledger, id, "developer")
		must(t, err)
	}
	want.Equal(t, "problems once all is dealt with", o.once().Problems, 0)
	o.wantRows(`SELECT path FROM bridge_problems`)
}

// TestOrderOfWriting checks that files are imported and delivered in the order in which they were written.
func TestOrderOfWriting(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "pm", "qa")
	var order []string
	for i := range 20 {
		id := fmt.Sprintf("m%02d", (i*7)%20)
		path := o.path("qa", id+".json")
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte(note(id, "pm", "qa")), 0o600))
		later(t, path, i)
		order = append(order, id)
	}
	want.Equal(t, "delivered", o.once().Delivered, 20)
	o.wantRows(`SELECT message_id FROM agent_message ORDER BY seq`, order...)
}

// TestFilesThatChangeMeanwhile checks that a file that replaces another between two steps of a check is neither
// read nor removed in its place, and that a pipe does not block the check.
func TestFilesThatChangeMeanwhile(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	folder := filepath.Join(top, "developer")
	must(t, os.Mkdir(folder, 0o700))
	path := filepath.Join(folder, "m.json")
	root, err := os.OpenRoot(top)
	must(t, err)
	t.Cleanup(func() { root.Close() })
	in, err := os.OpenRoot(folder)
	must(t, err)
	t.Cleanup(func() { in.Close() })
	written := func(text string) {
		must(t, os.WriteFile(path, []byte(text), 0o600))
		later(t, path, 0)
	}
	for name, change := range map[string]func(){
		"another file": func() {
			must(t, os.WriteFile(path+".new", []byte("another"), 0o600))
			must(t, os.Rename(path+".new", path))
		},
		"a pipe": func() {
			must(t, os.Remove(path))
			must(t, syscall.Mkfifo(path, 0o600))
		},
		"a link": func() {
			must(t, os.Rename(path, path+".old"))
			must(t, os.Symlink("m.json.old", path))
			must(t, os.WriteFile(path+".old", []byte("longer than it was"), 0o600))
		},
		"nothing": func() { must(t, os.Remove(path)) },
	} {
		written("a message")
		if _, err := bridge.Read(in, "m.json", change); !errors.Is(err, bridge.ErrMoved) &&
			!errors.Is(err, fs.ErrNotExist) {
			t.Errorf("reading %s: %v", name, err)
		}
		_ = os.Remove(path) // it may already be removed
		written("a message")
		if err := bridge.Remove(root, "developer", "m.json", "a message", change); !errors.Is(err, bridge.ErrMoved) {
			t.Errorf("removing %s: %v", name, err)
		}
		if _, err := os.Lstat(path); err != nil && name != "nothing" {
			t.Errorf("%s was removed: %v", name, err)
		}
		_ = os.Remove(path)
	}
	written("a message")
	text, err := bridge.Read(in, "m.json", func() {})
	must(t, err)
	want.Equal(t, "text", string(text), "a message")
	// another text in the same file, with the same length and time, is another message
	if err := bridge.Remove(root, "developer", "m.json", "a message", func() { written("A MESSAGE") }); !errors.Is(err,
		bridge.ErrMoved) {
		t.Errorf("removing what was written over: %v", err)
	}
	text, err = os.ReadFile(path)
	must(t, err)
	want.Equal(t, "text", string(text), "A MESSAGE")
	must(t, bridge.Remove(root, "developer", "m.json", "A MESSAGE", func() {}))
	want.Equal(t, "files", len(readNames(t, folder)), 1) // the link's
	want.Equal(t, "files on their way out", len(readNames(t, filepath.Join(top, ".mailroom"))), 0)
}

// TestFolderThatIsSwappedMeanwhile checks that a file is removed from the folder that was checked, even if another
// folder has its name by now.
func TestFolderThatIsSwappedMeanwhile(t *testing.T) {
	t.Parallel()
	for name, swap := range map[string]func(top string) error{
		"another folder": func(top string) error {
			return os.Rename(filepath.Join(top, "other"),
				filepath.Join(top, "developer"))
		},
		"a link": func(top string) error { return os.Symlink("other", filepath.Join(top, "developer")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			top := t.TempDir()
			for _, folder := range []string{"developer", "other"} {
				must(t, os.Mkdir(filepath.Join(top, folder), 0o700))
			}
			must(t, os.WriteFile(filepath.Join(top, "developer", "m.json"), []byte("a message"), 0o600))
			// As similar as possible.
			must(t, os.Link(filepath.Join(top, "developer", "m.json"), filepath.Join(top, "other", "m.json")))
			root, err := os.OpenRoot(top)
			must(t, err)
			defer root.Close()
			must(t, bridge.Remove(root, "developer", "m.json", "a message", func() {
				must(t, os.Rename(filepath.Join(top, "developer"), filepath.Join(top, "kept")))
				must(t, swap(top))
			}))
			want.Equal(t, "files of the folder that was looked at", len(readNames(t, filepath.Join(top, "kept"))), 0)
			want.Equal(t, "files of the other", len(readNames(t, filepath.Join(top, "developer"))), 1)
		})
	}
}

func readNames(t *testing.T, folder string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	must(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
