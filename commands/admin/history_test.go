package admin

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/store"
)

// history is two days in the life of a database. All events come from commands, real files and the test's own clock,
// except those that the history marks as "by hand".
type history struct {
	*fixture
	labels []string // message ids and labels, in pairs
}

// at sets the clock to a time of the second day.
func (h *history) at(hms string) {
	h.t.Helper()
	at, err := time.Parse(time.RFC3339, "2026-01-02T"+hms+"Z")
	if err != nil {
		h.t.Fatal(err)
	}
	h.clock.Set(at)
}

// label gives a message a label.
func (h *history) label(label, id string) string {
	h.labels = append(h.labels, id, label)
	return id
}

// bounced labels the error_report about a message.
func (h *history) bounced(label, about string) {
	h.t.Helper()
	table, err := h.router.Query(h.t.Context(),
		`SELECT message_id FROM agent_message WHERE reply_to = ?1 AND sender = 'system'`, store.Bound{Rows: 2}, about)
	rows := table.Rows.Values()
	if err != nil || len(rows) != 1 {
		h.t.Fatalf("the error_report about %s: %v, %v", about, rows, err)
	}
	h.label(label, rows[0][0].(string))
}

func (h *history) deliver() { h.t.Helper(); ask[any](h.fixture, "deliver_all", `{}`) }

// knownHistory builds the history, which ends at 12:00 on the second day.
func knownHistory(t *testing.T) *history {
	c := enginetest.NewClock()
	c.Set(time.Date(2025, 12, 31, 12, 0, 0, 0, time.UTC))
	open, shut := newGate(func() { c.Advance(2 * time.Second) }), newGate(func() {})
	close(open.through)
	h := &history{fixture: newFixture(t, c, map[string]orchestrator.Transport{"gate": open})}
	stuck := h.open("stuck", map[string]orchestrator.Transport{"gate": shut}) // a process that hangs in its deliveries
	t.Cleanup(func() { close(shut.through) })

	folder := t.TempDir()
	h.labels = append(h.labels, folder, "DIR")
	for _, name := range []string{"late", "never"} {
		if err := os.Mkdir(filepath.Join(folder, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, deliver := range map[string]string{
		"architect": "inbox", "builder": "inbox", "clerk": "jsonl:" + folder + "/late/clerk",
		"archivist": "jsonl:" + folder + "/never/archivist",
		"press":     "gate:press", "printer": "gate:printer", "plotter": "gate:plotter",
	} {
		ask[any](h.fixture, "agent_add", `{"name":"`+name+`","deliver":"`+deliver+`"}`)
	}
	for _, name := range []string{"late", "never"} { // the folders existed when the agents were added
		if err := os.Remove(filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	ask[any](h.fixture, "agent_add", `{"name":"plotter","timeout":30}`)
	typo := h.refused("send", `{"sender":"architect","recipient":"bilder","message_type":"note"}`,
		orchestrator.UnknownRecipient)
	h.label("m0-typo", typo.MessageID)

	h.morning(folder)
	h.stall(stuck, shut)
	h.noon()

	h.at("11:58:00")
	h.label("m14-printed", h.send("architect", "printer", "job", ""))
	h.label("m15-plotted", h.send("architect", "plotter", "job", ""))
	if _, err := stuck.DeliverAll(t.Context(), delivery.Options{Background: true}); err != nil {
		t.Fatal(err)
	}
	<-shut.begun
	<-shut.begun
	h.at("11:59:00")
	h.label("m16-waiting", h.send("architect", "builder", "note", ""))
	h.byHand(`INSERT INTO agent_message (message_id, sender, recipient) VALUES ('by-hand', 'architect', 'builder')`)
	h.byHand(`UPDATE agent_message SET status = 'cancelled' WHERE message_type = 'figures'`)
	h.at("12:00:00")
	return h
}

// morning has reads, a question and its answer, a message that is given up, and a message that is delivered after
// retries.
func (h *history) morning(folder string) {
	h.at("10:00:00")
	first := h.label("m1-read", h.send("architect", "builder", "note", ""))
	h.at("10:00:01")
	h.deliver()
	h.at("10:05:00")
	ask[any](h.fixture, "wait", `{"recipient":"builder","timeout":0}`)
	h.byHand(`INSERT INTO message_trace (message_id, at, event, old_status, new_status, actor)
		VALUES (?, '2026-01-02T10:05:00.000Z', 'delivered', 'delivered', 'delivered', 'intruder')`, first)

	h.at("10:06:00")
	h.label("m2-unanswered", h.send("architect", "builder", "question", ""))
	h.at("10:06:10")
	h.deliver()
	h.at("10:07:00")
	question := h.label("m3-question", h.send("builder", "architect", "question", ""))
	h.deliver()
	ask[any](h.fixture, "wait", `{"recipient":"architect","timeout":0}`)
	ask[any](h.fixture, "acknowledge", `{"message_id":"`+question+`"}`)
	h.at("10:08:00")
	h.label("m4-answer", h.send("architect", "builder", "answer", `,"reply_to":"`+question+`"`))
	h.deliver()

	h.at("10:10:00")
	lost := h.label("m5-given-up", h.send("architect", "clerk", "report", `,"max_retries":1`))
	h.deliver()
	h.at("10:10:30")
	h.deliver()
	h.bounced("m6-bounce", lost)
	h.at("10:11:00")
	h.label("m7-climber", h.send("builder", "clerk", "figures", ""))
	h.deliver()
	h.at("10:11:30")
	h.deliver()
	if err := os.Mkdir(filepath.Join(folder, "late"), 0o700); err != nil {
		h.t.Fatal(err)
	}
	h.at("10:12:30")
	h.deliver()
}

// stall makes a process hang in a delivery until its lease ends and another process takes over.
func (h *history) stall(stuck *delivery.Engine, shut *gate) {
	h.at("10:20:00")
	h.label("m8-crash", h.send("architect", "press", "job", ""))
	if _, err := stuck.DeliverAll(h.t.Context(), delivery.Options{Background: true}); err != nil {
		h.t.Fatal(err)
	}
	<-shut.begun
	h.at("10:30:00")
	h.deliver() // advances the clock by 2 s
}

// noon has a mistyped name, changes by hand and their adoption, a replay, an expiry, and a message that is being
// retried.
func (h *history) noon() {
	h.at("10:31:00")
	typo := h.refused("send", `{"sender":"architect","recipient":"bilder","message_type":"note"}`,
		orchestrator.UnknownRecipient)
	h.label("m9-typo", typo.MessageID)
	h.at("10:40:00")
	h.label("m10-again", h.send("clerk", "architect", "note", ""))
	h.deliver()
	h.byHand(`UPDATE agent_message SET status = 'pending' WHERE sender = 'clerk'`)
	h.at("10:41:00")
	h.deliver()
	h.at("10:52:00")
	late := h.label("m11-expired", h.send("builder", "archivist", "note", `,"ttl_seconds":60`))
	h.deliver()
	h.at("10:54:00")
	h.deliver()
	h.bounced("m12-bounce", late)
	h.at("11:50:00")
	h.label("m13-climbing", h.send("builder", "archivist", "note", ""))
	h.deliver()
	h.at("11:52:00")
	h.deliver()
	h.at("11:57:00")
	h.deliver()
}
