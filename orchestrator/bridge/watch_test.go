package bridge_test

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3"

	"mailroom/orchestrator"
	"mailroom/orchestrator/bridge"
	"mailroom/orchestrator/daemons"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/letter"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/helper"
	"mailroom/orchestrator/orchestratortest/want"
)

// count runs a query that counts.
func (o *office) count(query string) (n int) {
	o.T.Helper()
	_, err := fmt.Sscan(o.Rows(query)[0], &n)
	must(o.T, err)
	return n
}

// arrives makes a program write a message into a folder, and waits until it is in the table.
func (w *watching) arrives(o *office, id, folder, how string) {
	w.t.Helper()
	must(w.t, os.MkdirAll(o.path(folder), 0o700))
	drop(w.t, o.path(folder), id, note(id, "pm", folder), how)
	w.until(func() bool { return len(o.Rows(`SELECT 1 FROM agent_message WHERE message_id = ?1`, id)) == 1 })
}

// acknowledged waits until a message is acknowledged.
func (w *watching) acknowledged(o *office, id string) {
	w.t.Helper()
	w.until(func() bool {
		return len(o.Rows(`SELECT 1 FROM agent_message WHERE acknowledged_at <> '' AND message_id = ?1`, id)) == 1
	})
}

// TestHearsOfChanges checks that without rescans, the watch is notified of files that come and go and of new
// folders.
func TestHearsOfChanges(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "pm", "developer:", "qa")
	w := o.watch(time.Hour)
	w.arrives(o, "m1", "developer", "rename")
	w.arrives(o, "m2", "developer", "write")
	w.arrives(o, "m3", "qa", "rename") // a new folder
	w.arrives(o, "m4", "qa", "rename")
	must(t, os.Remove(o.path("developer", "m1.json")))
	<-w.looked
	for i := 0; o.count(`SELECT count(*) FROM agent_message WHERE acknowledged_at <> ''`) == 0; i++ {
		// The file counts as removed when a later check misses it, too.
		must(t, os.Mkdir(o.path(fmt.Sprint("again", i)), 0o700))
		<-w.looked
	}
	want.Equal(t, "taken in", w.stop().TakenIn, 4)
}

// TestFoldersThatComeAndGo checks a watch while folders are removed, renamed and recreated. The watch creates
// neither a missing folder nor the root. A missing root is reported until it is back.
func TestFoldersThatComeAndGo(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "pm", "developer:", "qa")
	w := o.watch(20 * time.Millisecond)
	w.arrives(o, "m1", "developer", "rename")
	must(t, os.RemoveAll(o.path("developer")))
	w.arrives(o, "m2", "developer", "rename")
	must(t, os.Remove(o.path("developer", "m2.json")))
	w.acknowledged(o, "m2")
	must(t, os.Rename(o.path("developer"), o.path("old")))
	w.arrives(o, "m3", "developer", "write")
	for i, goes := range []func() error{
		func() error { return os.RemoveAll(o.root) },
		func() error { return os.Rename(o.root, o.root+"-moved") },
	} {
		must(t, goes())
		w.until(func() bool { return o.log.told("mount its disk") == i+1 })
		must(t, os.Mkdir(o.root, 0o700))
		w.arrives(o, fmt.Sprint("back", i), "developer", "rename")
		w.until(func() bool {
			return o.count(`SELECT count(*) FROM bridge_problems WHERE problem LIKE 'the root %'`) == 0
		})
	}
	beating, err := daemons.List(t.Context(), o.Ledger)
	must(t, err)
	want.Equal(t, "daemons", len(beating), 1)
	counts := w.stop()
	want.Equal(t, "taken in", counts.TakenIn, 5)
	want.Equal(t, "acknowledged", counts.Acknowledged,
		o.count(`SELECT count(*) FROM agent_message WHERE acknowledged_at <> ''`))
	if beating, err = daemons.List(t.Context(), o.Ledger); err != nil || len(beating) != 0 {
		t.Errorf("daemons after the end: %v, %v", beating, err)
	}
}

// TestMakesFoldersForDeliveriesOnly checks that folders stay removed, or everything below the root, whatever
// changes the watch gets meanwhile. A message recreates the folder of its recipient.
func TestMakesFoldersForDeliveriesOnly(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "pm:", "developer:", "qa")
	must(t, os.MkdirAll(o.path("other"), 0o700))
	w := o.watch(20 * time.Millisecond)
	for round := range 100 {
		for _, folder := range []string{"pm", "developer"} {
			must(t, os.MkdirAll(o.path(folder), 0o700))
		}
		half := fmt.Sprintf("half%d.json", round) // checked with the clock of the file system
		must(t, os.WriteFile(o.path("developer", half), []byte(`{"id":`), 0o600))
		must(t, os.WriteFile(o.path("pm", "no message"), nil, 0o600))
		for _, folder := range []string{"pm", "developer", ".mailroom"} {
			must(t, os.RemoveAll(o.path(folder)))
		}
		id := fmt.Sprintf("m%d", round)
		o.write(note(id, "pm", "qa"), "other", "stray") // a check reports it once it has the name of a message
		must(t, os.Rename(o.path("other", "stray"), o.path("other", id+".json")))
		w.until(func() bool { return o.log.told(id+".json") == 1 })
		want.Equal(t, "what is there", fmt.Sprint(readNames(t, o.root)), "[other]")
	}
	must(t, os.RemoveAll(o.root))
	must(t, os.Mkdir(o.root, 0o700))
	sent, err := messages.Send(t.Context(), o.Ledger,
		orchestrator.Draft{Sender: "pm", Recipient: "developer", Type: "note", Payload: []byte(`{}`)})
	must(t, err)
	w.until(func() bool { return o.exists("developer", sent.MessageID+".json") })
	want.Equal(t, "pm has a folder", o.exists("pm"), false)
}

// TestDeliversBesideIt checks that the watch alone delivers messages and counts them.
func TestDeliversBesideIt(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "pm", "developer:")
	w := o.watch(50 * time.Millisecond)
	for range 10 {
		_, err := messages.Send(t.Context(), o.Ledger,
			orchestrator.Draft{Sender: "pm", Recipient: "developer", Type: "note", Payload: []byte(`{}`)})
		must(t, err)
	}
	w.until(func() bool { return o.count(`SELECT count(*) FROM agent_message WHERE status = 'delivered'`) == 10 })
	want.Equal(t, "delivered", w.stop().Delivered, 10)
}

// TestStatusUpdateUnderWay checks that a file for the watch itself whose delivery is not settled yet is handled
// once it is settled.
func TestStatusUpdateUnderWay(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "developer", "watchdog:")
	sent, err := messages.Send(t.Context(), o.Ledger,
		orchestrator.Draft{Sender: "developer", Recipient: "watchdog", Type: "status_update",
			Payload: []byte(`{"agent":"developer","status":"idle"}`)})
	must(t, err)
	ms, err := messages.Find(t.Context(), o.Ledger, sent.MessageID)
	must(t, err)
	text, err := letter.Of(&ms[0]).Encode()
	must(t, err)
	o.write(string(text), "watchdog", sent.MessageID+".json")
	db, err := sql.Open("sqlite3", "file:"+o.Path+"?_busy_timeout=10000")
	must(t, err)
	defer db.Close()
	_, err = db.Exec(`UPDATE agent_message SET next_attempt_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+20 seconds')`)
	must(t, err)
	w := o.watch(50 * time.Millisecond)
	<-w.looked
	want.Equal(t, "the file is there", o.exists("watchdog", sent.MessageID+".json"), true)
	_, err = db.Exec(`UPDATE agent_message SET next_attempt_at = ''`)
	must(t, err)
	w.until(func() bool { return !o.exists("watchdog", sent.MessageID+".json") })
	o.wantRows(`SELECT status, acknowledged_at <> '' FROM agent_message`, "delivered 1")
	o.checkOnce()
}

// TestReportsInTime checks that an incomplete file is reported once its writer has had enough time.
func TestReportsInTime(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "pm", "developer:")
	w := o.watch(50 * time.Millisecond)
	must(t, os.WriteFile(o.path("developer", "half.json"), []byte(`{"id":`), 0o600))
	w.until(func() bool { return o.log.told("half.json") == 1 })
	want.Equal(t, "problems", w.stop().Problems, 1)
}

// TestAThousandFilesAtOnce drops a thousand files into inboxes, renamed into place or written piece by piece, while
// messages go the other way. There are one or several watches beside a daemon that delivers. Each file and each
// message must be handled once.
func TestAThousandFilesAtOnce(t *testing.T) {
	t.Parallel()
	for _, watches := range []int{1, 3} {
		t.Run(fmt.Sprint(watches, " watches"), func(t *testing.T) {
			t.Parallel()
			o := newOffice(t, "pm:", "developer:", "qa")
			must(t, os.MkdirAll(o.path("qa"), 0o700))
			var helpers []*helper.Process
			for range watches {
				helpers = append(helpers, helper.Start(t, "watch", o.Path, o.root))
			}
			for _, h := range helpers {
				h.Until("looked")
			}
			files, sends := o.thousand()
			for o.count(`SELECT count(*) FROM agent_message WHERE status = 'delivered'`) < files+sends ||
				len(o.files("qa")) > 0 {
				helpers[0].Until("looked")
			}
			o.checkOnce()
			want.Equal(t, "messages", o.count(`SELECT count(*) FROM agent_message`), files+sends)
			want.Equal(t, "in the inbox", o.count(`SELECT count(*) FROM agent_inbox`),
				o.count(`SELECT count(*) FROM agent_message WHERE recipient = 'qa'`))
			for _, agent := range []string{"developer", "pm"} {
				names := o.files(agent)
				want.Equal(t, "files of "+agent, len(names),
					o.count(`SELECT count(*) FROM agent_message WHERE recipient = '`+agent+`'`))
				for _, name := range names {
					must(t, os.Remove(o.path(agent, name)))
				}
			}
			for o.count(`SELECT count(*) FROM agent_message WHERE recipient <> 'qa' AND acknowledged_at = ''`) > 0 {
				helpers[0].Until("looked")
			}
			taken, acknowledged := 0, 0
			for _, h := range helpers {
				c := counts(t, h)
				taken, acknowledged = taken+c.TakenIn, acknowledged+c.Acknowledged
			}
			want.Equal(t, "taken in, by all", taken, files)
			want.Equal(t, "acknowledged, by all", acknowledged,
				o.count(`SELECT count(*) FROM agent_message WHERE recipient <> 'qa'`))
			o.wantRows(`SELECT path FROM bridge_problems`)
		})
	}
}

// thousand makes other processes drop files while this one sends and delivers, and returns the numbers of both.
func (o *office) thousand() (files, sends int) {
	o.T.Helper()
	const droppers = 4
	each, sending := 250, 200
	if testing.Short() {
		each, sending = 60, 60
	}
	var dropping []*helper.Process
	for i := range droppers {
		dropping = append(dropping, helper.Start(o.T, "drop",
			o.root, fmt.Sprint("d", i), fmt.Sprint(each), []string{"rename", "write"}[i%2], "developer", "qa", "pm"))
	}
	for sends = range sending {
		_, err := messages.Send(o.T.Context(), o.Ledger, orchestrator.Draft{
			Sender: "qa", Recipient: []string{"developer", "pm", "qa"}[sends%3], Type: "note", Payload: []byte(`{}`),
		})
		must(o.T, err)
		if sends%50 == 0 {
			_, err := o.DeliverAll(o.T.Context(), delivery.Options{Background: true})
			must(o.T, err)
		}
	}
	for _, d := range dropping {
		d.Wait()
	}
	return droppers * each, sends + 1
}

// counts stops a watch, which must not have found problems, and returns its counts.
func counts(t *testing.T, h *helper.Process) (c bridge.Counts) {
	t.Helper()
	must(t, syscall.Kill(h.ID(), syscall.SIGTERM))
	for _, line := range h.Wait() {
		if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") {
			t.Error(line)
		}
		if strings.HasPrefix(line, "counts ") {
			_, err := fmt.Sscanf(line, "counts {TakenIn:%d Delivered:%d Acknowledged:%d", &c.TakenIn, &c.Delivered,
				&c.Acknowledged)
			must(t, err)
		}
	}
	return c
}

// files returns the names in an agent's folder.
func (o *office) files(agent string) (names []string) {
	o.T.Helper()
	entries, err := os.ReadDir(o.path(agent))
	must(o.T, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// checkOnce checks the trace: each message was created, delivered and acknowledged at most once.
func (o *office) checkOnce() {
	o.T.Helper()
	o.wantRows(`SELECT message_id, event, count(*) FROM message_trace
		WHERE event IN ('created', 'delivered', 'read', 'acknowledged')
		GROUP BY 1, 2 HAVING count(*) > 1`)
	o.wantRows(`SELECT message_id FROM agent_message m
		WHERE NOT EXISTS (SELECT 1 FROM message_trace t WHERE t.message_id = m.message_id AND event = 'created')`)
}

// TestKilledWatches repeatedly kills watches, up to two at a time, while files come and go. Each file must become
// one message, none may be lost or delivered twice, and messages whose files were removed must be acknowledged.
func TestKilledWatches(t *testing.T) {
	t.Parallel()
	rounds := helper.Times(200)
	o := newOffice(t, "pm", "developer:", "qa")
	o.once()
	must(t, os.MkdirAll(o.path("qa"), 0o700))
	dropped, removed := 0, map[string]bool{}
	var other *helper.Process
	for round := range rounds {
		if round%20 == 0 {
			t.Logf("round %d of %d", round, rounds) // a sign of life
		}
		h := helper.Start(t, "watch", o.Path, o.root)
		if round%3 > 0 {
			h.Until("looked") // otherwise it finds the files when it starts
		}
		if round%4 == 0 { // another one lives for four rounds
			if other != nil {
				other.Kill()
			}
			other = helper.Start(t, "watch", o.Path, o.root)
		}
		for i := range 6 {
			dropped++
			to := []string{"developer", "qa"}[i%2]
			id := fmt.Sprint("m", dropped)
			drop(t, o.path(to), id, note(id, "pm", to), []string{"rename", "write"}[i/2%2])
		}
		_, err := messages.Send(t.Context(), o.Ledger,
			orchestrator.Draft{Sender: "pm", Recipient: "developer", Type: "note", Payload: []byte(`{}`)})
		must(t, err)
		for _, id := range o.Rows(`SELECT message_id FROM agent_message WHERE recipient = 'developer'
			AND status = 'delivered' AND acknowledged_at = ''
				ORDER BY random() LIMIT 3`) {
			if !removed[id] {
				must(t, os.Remove(o.path("developer", id+".json")))
				removed[id] = true
			}
		}
		for range rand.IntN(8) { // one for each imported file, and a few more
			if _, ok := <-h.Lines; !ok {
				break
			}
		}
		h.Kill()
	}
	other.Kill()
	o.once()
	o.once() // the leases of the last killed watch have ended
	o.checkOnce()
	want.Equal(t, "messages", o.count(`SELECT count(*) FROM agent_message`), dropped+rounds)
	want.Equal(t, "delivered", o.count(`SELECT count(*) FROM agent_message WHERE status = 'delivered'`), dropped+rounds)
	want.Equal(t, "files of qa", len(o.files("qa")), 0)
	want.Equal(t, "acknowledged", o.count(`SELECT count(*) FROM agent_message WHERE acknowledged_at <> ''`),
		len(removed))
	for _, id := range o.Rows(`SELECT message_id FROM agent_message WHERE recipient = 'developer'`) {
		if o.exists("developer", id+".json") == removed[id] {
			t.Errorf("%s: removed %v, and its file is there: %v", id, removed[id], !removed[id])
		}
	}
	o.wantRows(`SELECT path FROM bridge_problems`)
}
