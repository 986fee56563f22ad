package bridge_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/bridge"
	"mailroom/orchestrator/bridge/letters"
	"mailroom/orchestrator/orchestratortest/want"
)

// problem is an entry in the place of a message, with its expected report.
type problem struct {
	make func(o *office, path string)
	says string
}

// problems returns entries of developer's folder. outside is a folder elsewhere.
func problems(outside string) map[string]problem {
	return map[string]problem{
		"empty":      {text(""), "the file is empty"},
		"half":       {text(note("h1", "pm", "developer")[:80]), "the file ends before its JSON is complete"},
		"no JSON":    {text("hello"), "the file is not valid JSON"},
		"trailing":   {text(note("t1", "pm", "developer") + "{}"), "the file contains text after the JSON object"},
		"no payload": {text(`{"id":"x","from":"pm","to":"developer","type":"note"}`), "payload: missing"},
		"twice": {text(`{"id":"x","id":"y","from":"pm","to":"developer","type":"note","payload":{}}`),
			"id: the key occurs twice"},
		"UTF-16":       {text("\xff\xfe{\x00}\x00"), "UTF-16"},
		"wrong folder": {text(note("w1", "pm", "qa")), "to: the message is to qa, but is in the folder developer"},
		"no name":      {text(note("w1", "the boss", "developer")), `from: "the boss" is not a valid name`},
		"bad payload": {text(`{"id":"b1","from":"pm","to":"developer","type":"bug_report","payload":{"taskId":"f","bugs":[{"file":"a","line":"ten","issue":"i"}]}}`),
			"payload.bugs[0].line"},
		"expired": {text(`{"id":"b1","from":"pm","to":"developer","type":"note","payload":{},"expires_at":"2025-01-01T00:00:00.000Z"}`), "expires_at: the message expired"},
		"no object": {text(`{"id":"b1","from":"pm","to":"developer","type":"note","payload":1}`),
			"payload: must be a JSON object"},
		"no priority": {text(`{"id":"b1","from":"pm","to":"developer","type":"note","payload":{},"priority":"soon"}`),
			"priority"},
		"too large": {text(note("l1", "pm", "developer") + strings.Repeat(" ", 5<<20)), "too large"},
		"large payload": {text(`{"id":"l2","from":"pm","to":"developer","type":"note","payload":{"x":"` +
			strings.Repeat("x", 1<<20) + `"}}`),
			"payload has 1048584 bytes"},
		"link out": {func(o *office, path string) {
			must(o.T,
				os.Symlink(filepath.Join(outside, "secret.json"), path))
		}, "but this is a symbolic link"},
		"link in": {func(o *office, path string) {
			o.write(note("li", "pm", "developer"), "elsewhere.txt")
			must(o.T, os.Symlink("../elsewhere.txt", path))
		}, "but this is a symbolic link"},
		"folder": {func(o *office, path string) { must(o.T, os.Mkdir(path, 0o700)) }, "but this is a folder"},
		"pipe":   {func(o *office, path string) { must(o.T, syscall.Mkfifo(path, 0o600)) }, "but this is a pipe"},
		"half a pair": {text(strings.Replace(note("h1", "pm", "developer"), "{", `{"extra":{"\ud83d":1},`, 1)),
			"half of a surrogate pair"},
		"unknown sender": {text(note("u1", "nobody", "developer")), `unknown agent "nobody"`},
		"id taken":       {text(note("taken", "developer", "developer")), "another message has the id taken"},
	}
}

// TestProblemsAreReportedOnce checks that a file that cannot be imported stays and is reported once, even across
// restarts. It is checked again when it changes. Its report is deleted when it is removed or imported.
func TestProblemsAreReportedOnce(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	must(t, os.WriteFile(filepath.Join(outside, "secret.json"), []byte(note("s1", "pm", "developer")), 0o600))
	for name, c := range problems(outside) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t, "pm", "developer:", "qa:")
			o.write(note("taken", "pm", "developer"), "developer", "taken.json")
			o.once()
			path := o.path("developer", "x.json")
			c.make(o, path)
			want.Equal(t, "problems", o.once().Problems, 1)
			want.Equal(t, "problems, by another watch", o.once().Problems, 1)
			found, err := letters.Problems(t.Context(), o.Ledger)
			must(t, err)
			if len(found) != 1 || found[0].Path != path || !strings.Contains(found[0].Problem, c.says) {
				t.Fatalf("got %+v; want %q", found, c.says)
			}
			want.Equal(t, "warnings", o.log.told(path), 1)
			want.Equal(t, "messages", len(o.Rows(`SELECT message_id FROM agent_message`)), 1)
			want.Equal(t, "it is there", o.exists("developer", "x.json"), true)

			must(t, os.RemoveAll(path))
			o.write("still wrong", "developer", "x.json")
			want.Equal(t, "problems after a change", o.once().Problems, 1)
			want.Equal(t, "warnings", o.log.told(path), 2)
			o.write(note("right", "pm", "developer"), "developer", "x.json")
			got := o.once()
			want.Equal(t, "problems of what is right now", got.Problems, 0)
			want.Equal(t, "taken in", got.TakenIn, 1)
			o.wantRows(`SELECT path FROM bridge_problems`)
		})
	}
}

func text(s string) func(*office, string) {
	return func(o *office, path string) {
		must(o.T, os.WriteFile(path, []byte(s), 0o600))
		o.age(path)
	}
}

// TestAForgottenProblemIsNew checks that a report is deleted with its file.
func TestAForgottenProblemIsNew(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "developer:")
	for round := 1; round <= 2; round++ {
		o.write("no message", "developer", "x.json")
		want.Equal(t, "problems", o.once().Problems, 1)
		want.Equal(t, "warnings", o.log.told("x.json"), round)
		must(t, os.Remove(o.path("developer", "x.json")))
		want.Equal(t, "problems without the file", o.once().Problems, 0)
		o.wantRows(`SELECT path FROM bridge_problems`)
	}
	must(t, os.Mkdir(o.path("gone"), 0o700))
	o.write("no message", "gone", "y.json")
	want.Equal(t, "problems", o.once().Problems, 1)
	must(t, os.RemoveAll(o.path("gone")))
	want.Equal(t, "problems without the folder", o.once().Problems, 0)
	o.wantRows(`SELECT path FROM bridge_problems`)
}

// TestUnfinishedFilesAreLeftAlone checks that a recently written invalid file is left alone, because it may be
// incomplete.
func TestUnfinishedFilesAreLeftAlone(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "pm", "developer:")
	path := o.path("developer", "x.json")
	whole := note("m1", "pm", "developer")
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(path, []byte(whole[:100]), 0o600))
	want.Equal(t, "problems of half a file", o.once().Problems, 0)
	must(t, os.WriteFile(path, []byte(whole), 0o600))
	want.Equal(t, "taken in", o.once().TakenIn, 1)
	o.wantRows(`SELECT path FROM bridge_problems`)

	must(t, os.WriteFile(path, []byte("nonsense"), 0o600))
	later := time.Now().Add(time.Hour) // a time set explicitly means that the writer has finished
	must(t, os.Chtimes(path, later, later))
	want.Equal(t, "problems of a finished file", o.once().Problems, 1)
}

// TestUnknownAgents checks that a file from or to an unknown agent waits, and is imported once the agent is added.
func TestUnknownAgents(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "pm")
	o.write(note("m1", "developer", "pm"), "pm", "m1.json")
	o.write(note("m2", "pm", "developer"), "developer", "m2.json")
	want.Equal(t, "problems", o.once().Problems, 2)
	for _, problem := range o.Rows(`SELECT problem FROM bridge_problems`) {
		if !strings.Contains(problem, "mailroom agent add developer") {
			t.Errorf("the problem %q does not say what to do", problem)
		}
	}
	o.add("developer:")
	got := o.once()
	want.Equal(t, "taken in", got.TakenIn, 2)
	want.Equal(t, "problems", got.Problems, 0)
	want.Equal(t, "warnings", o.log.told("has a problem"), 2)
	o.wantRows(`SELECT path FROM bridge_problems`)
}

// TestAFullInboxTakesNoMore checks that a file waits if its recipient's backlog is at its limit.
func TestAFullInboxTakesNoMore(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "pm", "developer")
	none := filepath.Join(t.TempDir(), "missing")
	must(t, os.Mkdir(none, 0o700))
	deliver := "jsonl:" + filepath.Join(none, "lines")
	_, _, err := agents.Add(t.Context(), o.Ledger, agents.Update{Name: "developer", Deliver: &deliver})
	must(t, err)
	must(t, os.Remove(none))
	_, err = o.SetSetting(t.Context(), "backlog.limit", "1")
	must(t, err)
	o.write(note("m1", "pm", "developer"), "developer", "m1.json")
	o.write(note("m2", "pm", "developer"), "developer", "m2.json")
	got := o.once()
	want.Equal(t, "taken in", got.TakenIn, 1)
	want.Equal(t, "problems", got.Problems, 1)
	_, err = o.SetSetting(t.Context(), "backlog.limit", "0")
	must(t, err)
	got = o.once()
	want.Equal(t, "taken in", got.TakenIn, 1)
	want.Equal(t, "problems", got.Problems, 0)
}

// TestHostileNames checks file names that could confuse a shell, a terminal or a table.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "pm", "developer:", "qa")
	names := []string{
		"new\nline.json", "-rf.json", "..json", "...json", "a b.json", "*.json", "$(touch x).json",
		"'; DROP TABLE agents.json", "\x1b[2J.json",
		"not\xffutf8.json", strings.Repeat("n", 250) + ".json", `"quoted".json`, "%2e%2e%2f.json", "ü.json",
		".json.json",
	}
	for _, folder := range []string{"developer", "qa"} {
		for i, name := range names {
			o.write(note(fmt.Sprintf("%s-%d", folder, i), "pm", folder), folder, name)
		}
	}
	for _, ignored := range []string{".hidden.json", "x.json.tmp", "x.JSON~", ".json"} {
		o.write("not looked at", "developer", ignored)
	}
	visible := len(names) - 3 // those that begin with a dot are hidden
	want.Equal(t, "taken in", o.once().TakenIn, 2*visible)
	o.wantRows(`SELECT path FROM bridge_problems`)
	for i, name := range names {
		if !strings.HasPrefix(name, ".") {
			want.Equal(t, "delivery "+strconv.Quote(name), o.exists("developer", name), true)
			want.Equal(t, "file of qa "+strconv.Quote(name), o.exists("qa", name), false)
			must(t, os.Remove(o.path("developer", name)))
			want.Equal(t, fmt.Sprintf("acknowledged %d", i), o.once().Acknowledged, 1)
		}
	}
	for _, name := range names {
		o.write("no message", "developer", name)
	}
	want.Equal(t, "problems", o.once().Problems, visible)
	want.Equal(t, "warnings", o.log.told("has a problem"), visible)
	for _, path := range o.Rows(`SELECT path FROM bridge_problems`) {
		if strings.ContainsAny(path, "\n\x1b") || !utf8.ValidString(path) {
			t.Errorf("the path %q is shown as it is", path)
		}
	}
	must(t, os.RemoveAll(o.path("developer")))
	o.once()
	o.wantRows(`SELECT path FROM bridge_problems`)
}

// TestFoldersThatAreNone checks that links are not followed, that hidden folders and files in the root are nobody's
// inbox, and that a folder whose name is not an agent's keeps its files.
func TestFoldersThatAreNone(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "pm", "developer:", "qa")
	outside := t.TempDir()
	must(t, os.WriteFile(filepath.Join(outside, "m.json"), []byte(note("m1", "pm", "qa")), 0o600))
	o.once()
	must(t, os.Symlink(outside, o.path("qa")))
	must(t, os.Symlink("developer", o.path("inside")))
	o.write(note("m2", "pm", "developer"), "Developer", "m2.json")
	o.write("nothing", ".git", "m3.json")
	o.write("nothing", "package.json")
	o.write(note("m2", "pm", "developer"), "pm", "m2.json")
	o.write(note("m2", "pm", "developer"), "lost.json")
	want.Equal(t, "problems", o.once().Problems, 5)
	for path, problem := range map[string]string{
		o.path("qa"): "symbolic link", o.path("inside"): "symbolic link",
		o.path("Developer", "m2.json"): "cannot be the inbox folder of an agent",
		o.path("pm", "m2.json"):        "the message is to developer, but is in the folder pm",
		o.path("lost.json"):            "is not in an inbox folder",
	} {
		got := o.Rows(`SELECT problem FROM bridge_problems WHERE path = ?1`, path)
		if len(got) != 1 || !strings.Contains(got[0], problem) {
			t.Errorf("%s: got %q; want %q", path, got, problem)
		}
	}
	o.wantRows(`SELECT message_id FROM agent_message`)
	if _, err := os.Stat(filepath.Join(outside, "m.json")); err != nil {
		t.Error("what a link leads to was touched")
	}
	must(t, os.Remove(o.path("qa")))
	must(t, os.Remove(o.path("inside")))
	must(t, os.RemoveAll(o.path("Developer")))
	must(t, os.Remove(o.path("pm", "m2.json")))
	must(t, os.Remove(o.path("lost.json")))
	want.Equal(t, "problems", o.once().Problems, 0)
}

// TestUnreadable checks that an unreadable file and an unreadable folder are problems, and that the rest is
// processed.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	unprivileged(t, "unreadable")
}

func runUnreadable(t *testing.T, args []string) {
	giveUpRights(t, args[0])
	o := newOffice(t, "pm", "arch:", "developer:", "qa:")
	o.write(note("m1", "pm", "developer"), "developer", "m1.json")
	o.write(note("m2", "pm", "developer"), "developer", "m2.json")
	o.write(note("m3", "pm", "arch"), "arch", "m3.json")
	must(t, os.Chmod(o.path("developer", "m1.json"), 0))
	must(t, os.Chmod(o.path("qa"), 0))
	must(t, os.Chmod(o.path("arch"), 0o644)) // it can be listed, but not entered
	got := o.once()
	want.Equal(t, "taken in", got.TakenIn, 1)
	want.Equal(t, "problems", got.Problems, 3)
	must(t, os.Chmod(o.path("qa"), 0o700))
	must(t, os.Chmod(o.path("arch"), 0o700))
	got = o.once()
	want.Equal(t, "taken in", got.TakenIn, 1)
	want.Equal(t, "problems", got.Problems, 1)
}

// TestReadOnlyFolder checks that a file that was imported and cannot be removed is not imported again.
func TestReadOnlyFolder(t *testing.T) {
	t.Parallel()
	unprivileged(t, "read-only folder")
}

func runReadOnlyFolder(t *testing.T, args []string) {
	giveUpRights(t, args[0])
	o := newOffice(t, "pm", "qa")
	o.write(note("m1", "pm", "qa"), "qa", "m1.json")
	must(t, os.Chmod(o.path("qa"), 0o500))
	want.Equal(t, "problems", o.once().Problems, 1)
	want.Equal(t, "problems", o.once().Problems, 1)
	o.wantRows(`SELECT message_id FROM agent_message`, "m1")
	must(t, os.Chmod(o.path("qa"), 0o700))
	want.Equal(t, "problems", o.once().Problems, 0)
	if _, err := os.Lstat(o.path("qa", "m1.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("it was not removed")
	}
}

// TestAnAgentThatIsAdded checks that a waiting file is imported, without a change, once its recipient is added.
func TestAnAgentThatIsAdded(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "pm")
	must(t, os.MkdirAll(o.path("qa"), 0o700))
	w := o.watch(50 * time.Millisecond)
	drop(t, o.path("qa"), "m1", note("m1", "pm", "qa"), "rename")
	w.until(func() bool { return o.log.told(`add qa`) == 1 })
	o.wantRows(`SELECT problem FROM bridge_problems`,
		"unknown agent \"qa\". To add the agent, run `mailroom agent add qa`; if the agent reads from folders in this root, add --deliver dir:"+
			o.root)
	o.add("qa:")
	w.until(func() bool { return o.count(`SELECT count(*) FROM agent_message WHERE status = 'delivered'`) == 1 })
}

// TestAnotherRoot checks the warning of a watch over a root below which nobody reads while others read elsewhere.
func TestAnotherRoot(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "pm", "qa:")
	o.once()
	want.Equal(t, "told of the root that is read", o.log.told("no agent reads from folders in this root"), 0)
	options := o.options()
	options.Root = t.TempDir()
	_, err := bridge.Once(t.Context(), o.Engine, options)
	must(t, err)
	want.Equal(t, "told", o.log.told("elsewhere=qa reads from "+o.root), 1)
}
