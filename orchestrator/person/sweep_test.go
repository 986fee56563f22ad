package person_test

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/person"
	"mailroom/orchestrator/questions"
)

// TestSweep checks that the background sweep immediately removes leftovers, including the pin of a phone that left by
// itself.
func TestSweep(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	gone, kept := o.phone(), o.phone()
	asked := o.ask()
	open := o.ask()
	if _, err := questions.Cancel(t.Context(), o.Ledger, asked.ID, ""); err != nil {
		// This bypasses person.Cancel, as an expiry does.
		t.Fatal(err)
	}
	if _, err := questions.RevokeDevice(t.Context(), o.Ledger, gone.id); err != nil {
		// This bypasses person.Revoke, as the app does.
		t.Fatal(err)
	}
	if len(o.files("replies")) != 2 || len(o.files("devices")) != 2 {
		t.Fatalf("%v, %v", o.files("replies"), o.files("devices"))
	}
	o.clock.Advance(8 * 24 * time.Hour)
	if _, err := questions.Get(t.Context(), o.Ledger, open.ID); err != nil {
		t.Fatal(err)
	}
	stop := person.Start(t.Context(), o.Ledger, slog.New(slog.DiscardHandler))
	for len(o.files("replies")) > 0 || len(o.files("devices")) > 1 {
		if t.Context().Err() != nil {
			t.Fatalf("%v, %v", o.files("replies"), o.files("devices"))
		}
	}
	stop()
	if left := o.files("devices"); len(left) != 1 || left[0] != kept.id {
		t.Errorf("pinned are %v", left)
	}
}

// TestOthersAreLetAlone checks that reads and cancellations touch only the key of their own question, and that asking
// removes keys that are no longer needed.
func TestOthersAreLetAlone(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.phone()
	ended, own := o.ask(), o.ask()
	if _, err := questions.Cancel(t.Context(), o.Ledger, ended.ID, ""); err != nil { // bypasses person.Cancel
		t.Fatal(err)
	}
	if _, err := o.get(own.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := person.Cancel(t.Context(), o.Ledger, own.ID, "builder"); err != nil {
		t.Fatal(err)
	}
	if left := o.files("replies"); !slices.Equal(left, []string{ended.ID}) {
		t.Errorf("left is %v", left)
	}
	last := o.ask()
	if left := o.files("replies"); !slices.Equal(left, []string{last.ID}) {
		t.Errorf("after another question, left is %v", left)
	}
}

// TestSweepOfClearQuestions checks that the record of an unencrypted question is removed after its row.
func TestSweepOfClearQuestions(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.phone()
	var ids []string
	for range 4 {
		asked, err := person.Ask(ledger.WithIdentity(t.Context(), "builder"), o.Ledger,
			person.Question{Asker: "builder", Question: "Deploy?"})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, asked.ID)
		o.clock.Advance(time.Millisecond) // IDs sort by time
	}
	for _, id := range []string{ids[0], ids[1], ids[3]} {
		o.exec(`DELETE FROM signal_questions WHERE question_id = ?`, id)
	}
	for at, want := range [][]string{ids, {ids[2], ids[3]}} {
		// A recent orphan could belong to a question that is being asked, and the sweep stops at an existing
		// question.
		if err := person.Sweep(t.Context(), o.Ledger); err != nil || !slices.Equal(o.files("clear"), want) {
			t.Errorf("sweep %d leaves %v, %v; want %v", at, o.files("clear"), err, want)
		}
		o.clock.Advance(10 * time.Minute)
	}
}

// TestKeyUntilItWentBack checks that the key of a question from a message is kept until ten minutes after the answer
// was returned.
func TestKeyUntilItWentBack(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	p := o.phone()
	asked, err := person.Ask(ledger.WithIdentity(t.Context(), "builder"), o.Ledger,
		person.Question{Asker: "builder", Question: "Deploy?", Encrypted: true, MessageID: "msg-1"})
	if err != nil {
		t.Fatal(err)
	}
	o.put(asked.ID, p.id, p.answer(asked.Question, "yes").seal())
	o.answered(asked.ID, "yes")
	o.clock.Advance(time.Hour)
	sweep := func(left int) {
		t.Helper()
		if err := person.Sweep(t.Context(), o.Ledger); err != nil || len(o.files("replies")) != left {
			t.Fatalf("left is %v, %v", o.files("replies"), err)
		}
	}
	sweep(1)
	o.answered(asked.ID, "yes")
	if err := questions.ReplyAsUser(t.Context(), o.Ledger,
		questions.UserReply{Question: asked.ID,
			Draft: orchestrator.Draft{Recipient: "builder", Type: "RESULT", Payload: []byte(`"yes"`)}}); err != nil {
		t.Fatal(err)
	}
	o.clock.Advance(10*time.Minute - time.Second)
	sweep(1)
	o.answered(asked.ID, "yes")
	o.clock.Advance(time.Second)
	sweep(0)
	_, err = o.get(asked.ID)
	want.Code(t, err, orchestrator.Conflict)
	o.exec(`UPDATE signal_questions SET read_at = '' WHERE question_id = ?`, asked.ID)
	_, err = o.get(asked.ID)
	if want.Code(t, err, orchestrator.Conflict); !strings.Contains(err.Error(), "was sent as a message") {
		t.Error(err)
	}
}
