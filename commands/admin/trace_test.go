package admin

import (
	"strings"
	"testing"
	"time"

	"mailroom/commands/admin/inspection"
	"mailroom/orchestrator"
)

// id returns the id of a labelled message.
func (h *history) id(label string) string {
	h.t.Helper()
	for i := 0; i < len(h.labels); i += 2 {
		if h.labels[i+1] == label {
			return h.labels[i]
		}
	}
	h.t.Fatalf("nothing is labelled %s", label)
	return ""
}

// tell returns the text form of the trace of a labelled message of the known history.
func (h *history) tell(label string) string {
	h.t.Helper()
	shown := text(ask[inspection.TraceResult](h.fixture, "trace", `{"message_id":"`+h.id(label)+`"}`))
	shown = strings.NewReplacer(h.labels...).Replace(shown)
	return strings.ReplaceAll(traceIDs.ReplaceAllString(shown, "TRACE"), day, "")
}

// TestTraceAsATree checks the tree: the message, below it the commands with their durations and traces, and below
// each command what it did.
func TestTraceAsATree(t *testing.T) {
	t.Parallel()
	h := knownHistory(t)
	h.label("by-hand", "by-hand")
	for label, want := range map[string]string{
		"m5-given-up": `m5-given-up  report  architect → clerk  failed
├─ send by first  +0.000 s  took 0.000 s  trace TRACE
│  └─ created         10:10:00.000Z  +0.000 s
├─ deliver_all by first  +0.000 s  took 0.000 s  trace TRACE
│  ├─ claimed         10:10:00.000Z  +0.000 s  attempt 1
│  └─ attempt_failed  10:10:00.000Z  +0.000 s  pending → retry  attempt 1  the folder DIR/late does not exist; create it before the next attempt
└─ deliver_all by first  +30.000 s  took 0.000 s  trace TRACE
   ├─ claimed         10:10:30.000Z  +30.000 s  attempt 2
   ├─ attempt_failed  10:10:30.000Z  +30.000 s  attempt 2  the folder DIR/late does not exist; create it before the next attempt
   └─ failed          10:10:30.000Z  +30.000 s  retry → failed  attempt 2  the folder DIR/late does not exist; create it before the next attempt
   created      10:10:00.000Z (agent_message.created_at)
`,
		"m8-crash": `m8-crash  job  architect → press  delivered
├─ send by first  +0.000 s  took 0.000 s  trace TRACE
│  └─ created         10:20:00.000Z  +0.000 s
├─ engine of stuck  +0.000 s
│  └─ claimed         10:20:00.000Z  +0.000 s  attempt 1
└─ deliver_all by first  +600.000 s  took 2.000 s  trace TRACE
   ├─ released        10:30:00.000Z  +600.000 s  attempt 1  the lease of stuck expired: its process died or stopped responding
   ├─ overdue         10:30:00.000Z  +600.000 s  undelivered since 10:20:00.000Z
   ├─ claimed         10:30:00.000Z  +600.000 s  attempt 1
   └─ delivered       10:30:02.000Z  +602.000 s  pending → delivered  attempt 1
   created      10:20:00.000Z (agent_message.created_at)
   delivered    10:30:02.000Z (agent_message.delivered_at)
`,
		"m10-again": `m10-again  note  clerk → architect  delivered
├─ send by first  +0.000 s  took 0.000 s  trace TRACE
│  └─ created         10:40:00.000Z  +0.000 s
├─ deliver_all by first  +0.000 s  took 0.000 s  trace TRACE
│  └─ delivered       10:40:00.000Z  +0.000 s  pending → delivered  attempt 1
└─ deliver_all by first  +60.000 s  took 0.000 s  trace TRACE
   ├─ adopted         10:41:00.000Z  +60.000 s  delivered → pending
   └─ delivered       10:41:00.000Z  +60.000 s  pending → delivered  attempt 1
   created      10:40:00.000Z (agent_message.created_at)
   delivered    10:41:00.000Z (agent_message.delivered_at)
`,
		"by-hand": `by-hand  architect → builder  pending
└─ no events yet: the message was inserted with SQL, and no delivery run has processed it
`,
	} {
		if got := h.tell(label); got != want {
			t.Errorf("%s:\n%s\nwant:\n%s", label, got, want)
		}
	}
}

// TestTraceOutlivesItsMessage checks that the story is still shown after retention deleted the row.
func TestTraceOutlivesItsMessage(t *testing.T) {
	t.Parallel()
	h := knownHistory(t)
	h.clock.Advance(8 * 24 * time.Hour)
	ask[any](h.fixture, "clear_old", `{}`)
	got := h.tell("m5-given-up")
	for _, want := range []string{"deleted by retention; its trace still exists\n", "retry → failed",
		"└─ clear_old by first", "└─ deleted "} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}

// TestDeletedMessageIsTold checks that trace and why show the sender, the recipient, the type and the last error of a
// message that retention deleted.
func TestDeletedMessageIsTold(t *testing.T) {
	t.Parallel()
	h := knownHistory(t)
	asked := `{"message_id":"` + h.id("m5-given-up") + `"}`
	const failure = "late does not exist; create it before the next attempt\n" // the path of the folder precedes it
	h.clock.Advance(8 * 24 * time.Hour)
	ask[any](h.fixture, "clear_old", `{}`)
	shown, explained := h.tell("m5-given-up"), text(ask[inspection.WhyResult](h.fixture, "why", asked))
	for what, want := range map[string]string{
		shown:     "m5-given-up  report  architect → clerk  deleted by retention; its trace still exists\n",
		explained: " from architect to clerk was failed.\n",
	} {
		if !strings.Contains(what, want) || !strings.Contains(what, failure) {
			t.Errorf("%q and %q are not both in\n%s", want, failure, what)
		}
	}
	if !strings.Contains(explained, "deleted from the database at 2026-01-") {
		t.Errorf("not said when it was deleted:\n%s", explained)
	}
	h.refused("why", `{"message_id":"msg-none"}`, orchestrator.NotFound)
}

// TestWhyFitsOnAScreen checks that 24 lines show where a message is, which rule keeps it there, and what would help.
func TestWhyFitsOnAScreen(t *testing.T) {
	t.Parallel()
	h := knownHistory(t)
	for label, want := range map[string]string{
		"m2-unanswered": "no confirmation yet that it was read",
		"m3-question":   "delivered, read, and acknowledged",
		"m5-given-up":   "delivery failed permanently after 2 attempts",
		"m9-typo":       "it was rejected when it was sent",
		"m11-expired":   "not delivered before it expired",
		"m13-climbing":  "it is due now",
		"m14-printed":   "stuck is delivering it; its lease ends at 2026-01-02T12:03:30.000Z",
		"m15-plotted":   "the lease of stuck ended at 2026-01-02T11:59:00.000Z without a result",
		"m16-waiting":   "it is due now",
	} {
		shown := text(ask[inspection.WhyResult](h.fixture, "why", `{"message_id":"`+h.id(label)+`"}`))
		if lines := strings.Count(shown, "\n"); lines > 24 || !strings.Contains(shown, want) {
			t.Errorf("%s: %d lines, and %q is missing in\n%s", label, lines, want, shown)
		}
	}
}
