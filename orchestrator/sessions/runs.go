package sessions

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/process"
	"mailroom/orchestrator/program"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// RunState is the state of a run.
type RunState string

// The states of a run. After a failed run the next begins at NextAt. After a run that was given up, the next begins
// when there is a new message.
const (
	Running RunState = "running"
	Ended   RunState = "ended"
	Failed  RunState = "failed"
	GivenUp RunState = "given_up"
)

// Run describes the last run of an agent's start command.
type Run struct {
	State     RunState `json:"state"`
	Since     string   `json:"since"` // when it took that state
	StartedAt string   `json:"started_at"`
	Instance  string   `json:"instance"`          // the process that started it
	PID       int      `json:"pid,omitempty"`     // of the command; 0: it was not started yet, or could not be
	Outcome   string   `json:"outcome,omitempty"` // how it ended, and its last output if it failed
	Output    string   `json:"output"`            // file with its output, emptied when the next run begins
	Starts    int64    `json:"starts"`            // runs so far
	Failures  int64    `json:"failures"`          // consecutive failures
	NextAt    string   `json:"next_at,omitempty"` // time of the next start at the earliest

	Through int64 `json:"-"` // seq of the newest message that it was started for
}

// Output returns the path of the file with the output of an agent's session.
func Output(l *ledger.Ledger, agent string) string {
	return filepath.Join(program.SlotFolder(l.FilePrefix()), agent+".session.log")
}

// runColumns are the columns that runOf reads.
const runColumns = `state, started_at, ended_at, instance, pid, outcome, failures, next_at, through, starts`

func runOf(row store.Row) *Run {
	r := &Run{
		State: RunState(row.Text(0)), Since: row.Text(2), StartedAt: row.Text(1), Instance: row.Text(3),
		PID: int(row.Int(4)), Outcome: row.Text(5), Failures: row.Int(6), NextAt: row.Text(7),
		Through: row.Int(8), Starts: row.Int(9),
	}
	if r.State == Running {
		r.Since = r.StartedAt
	}
	return r
}

// LastRun returns the last run of an agent's start command, or nil if there was none.
func LastRun(c *store.Conn, agent string) (run *Run, err error) {
	run, _, err = store.First(c, runOf, `SELECT `+runColumns+` FROM agent_runs WHERE agent = ?`, agent)
	return run, err
}

// LastRuns returns the last run of every agent whose start command was ever run, by agent.
func LastRuns(c *store.Conn) (map[string]*Run, error) {
	runs := map[string]*Run{}
	err := c.Query(`SELECT `+runColumns+`, agent FROM agent_runs`, func(row store.Row) error {
		runs[row.Text(10)] = runOf(row)
		return nil
	})
	return runs, err
}

// Begun is a run whose command is about to start.
type Begun struct {
	Agent       ledger.Agent
	MessageID   string // the first message that it is started for
	Unread      int    // number of messages that it is started for
	Traceparent string // of the run, W3C Trace Context

	starts int64
	unread []string // IDs of the unread messages in its inbox
	span   *tracing.Span
}

// Begin records that an agent's start command is about to run for the messages that wait for the agent, and sets
// the agent's presence to working. It returns nil if the command is not to run: there are no messages, it is too
// early after a failure, or the agent has stopped. It returns orchestrator.ErrNoSlot while a daemon of another host
// runs the command.
//
// The caller must hold the lock under which the agent's sessions run, so that none is running on this host. If the
// tables show a running session, it was lost with the process that monitored it. Begin then ends that run and keeps
// lost as its last output.
func (s *Sessions) Begin(ctx context.Context, agent, lost string) (begun *Begun, err error) {
	err = s.ledger.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		begun = nil
		conf := t.Config()
		a := conf.Agents[agent]
		if a == nil || a.StartCommand == "" || a.Away() {
			return nil
		}
		run, err := LastRun(t.Conn, agent)
		if err != nil {
			return err
		}
		if run != nil && run.State == Running {
			if err := notElsewhere(t, run); err != nil {
				return err
			}
			if err := runLost(t, agent, run, lost); err != nil {
				return err
			}
		}
		wish, err := s.wishOf(t.Conn, conf, a, run, t.Clock)
		if err != nil || !wish.now {
			return err
		}
		begun, err = begin(ctx, t, a, run, s.looked[agent])
		return err
	})
	if err != nil {
		return nil, err
	}
	return begun, nil
}

// silence is the time without a heartbeat after which a daemon of another host no longer monitors a session.
const silence = time.Minute

// notElsewhere returns orchestrator.ErrNoSlot for a run of a daemon of another host, which may also start the
// agent's sessions, as long as that daemon's heartbeat is recent.
func notElsewhere(t *ledger.Tx, run *Run) error {
	n, err := t.Number(`SELECT EXISTS (SELECT 1 FROM daemons WHERE instance = ?1 AND host <> ?2 AND seen_at > ?3)`,
		run.Instance, t.Ledger.Host(), orchestrator.Stamp(t.Clock.Add(-silence)))
	if err == nil && n != 0 {
		err = orchestrator.ErrNoSlot
	}
	return err
}

func begin(ctx context.Context, t *ledger.Tx, a *ledger.Agent, run *Run, looked string) (*Begun, error) {
	m, err := mailFor(t.Conn, a, run, looked)
	if err != nil {
		return nil, err
	}
	b := &Begun{Agent: *a, MessageID: m.first, Unread: m.count, starts: 1, unread: m.unread}
	failures := int64(0)
	if run != nil {
		b.starts, m.through = run.Starts+1, max(m.through, run.Through)
		if run.State == Failed {
			failures = run.Failures
		}
	}
	if err := t.Run(`
		INSERT INTO agent_runs (agent, state, started_at, instance, host, failures, through, starts)
			VALUES (?, 'running', ?, ?, ?, ?, ?, ?)
		ON CONFLICT (agent) DO UPDATE SET state = 'running', started_at = excluded.started_at, ended_at = '',
			instance = excluded.instance,
		    host = excluded.host, pid = 0, outcome = '', failures = excluded.failures, next_at = '',
		    	through = excluded.through, starts = excluded.starts`,
		a.Name, t.Now, t.Actor, process.Of(os.Getpid()).Host(), failures, m.through, b.starts); err != nil {
		return nil, err
	}
	if _, err := agents.TakePresence(t, orchestrator.DefaultSession, a.Name, orchestrator.Working); err != nil {
		return nil, err
	}
	t.Heartbeat(a.Name)
	ctx = tracing.WithParent(ctx, tracing.Traceparent(m.traceID, m.spanID))
	b.span = runSpan(ctx, t, a.Name)
	b.span.LeaveOpen()
	b.span.Set(tracing.AttrMessageID, m.first)
	b.Traceparent = b.span.Traceparent()
	return b, b.span.Save(t, t.Clock, t.Actor, "")
}

// StartSpan, followed by the agent's name, is the name of a run's span in command_trace.
const StartSpan = "start "

// runSpan begins the span of a run.
func runSpan(ctx context.Context, t *ledger.Tx, agent string) *tracing.Span {
	_, span := tracing.Start(ctx, StartSpan+agent)
	span.Set("agent", agent)
	span.Begin(t.Clock)
	return span
}

// runLost ends a run whose process died before it could record the end. A run without a PID counts as not started.
func runLost(t *ledger.Tx, agent string, run *Run, output string) error {
	run.State, run.Outcome = Ended, "unknown: the process that monitored the session died"
	if run.PID == 0 {
		run.State, run.Outcome = Failed, "unknown whether the session started: the process that was starting it died"
	}
	span := runSpan(context.Background(), t, agent)
	span.Set("pid", run.PID)
	span.Set("outcome", run.Outcome)
	span.Set("output", output)
	if err := span.Save(t, t.Clock, t.Actor, run.Outcome); err != nil {
		return err
	}
	if err := t.Run(`UPDATE agent_runs SET state = ?, ended_at = ?, outcome = ? WHERE agent = ?`,
		string(run.State), t.Now, run.Outcome, agent); err != nil {
		return err
	}
	return sessionEnded(t, agent, run.Outcome)
}

// sessionEnded notifies the engine's parts of the end of an agent's session.
func sessionEnded(t *ledger.Tx, agent, outcome string) error {
	for _, p := range t.Ledger.Parts {
		if p.SessionEnded == nil {
			continue
		}
		if err := p.SessionEnded(t, agent, outcome); err != nil {
			return err
		}
	}
	return nil
}

// Started records the process ID of a run. If Started was not called and the process that monitors the run dies,
// the run counts as not started.
func (s *Sessions) Started(ctx context.Context, b *Begun, pid int) error {
	b.span.Set("pid", pid)
	return s.ledger.Write(ctx, store.Shared, func(t *ledger.Tx) error {
		if err := t.Run(`UPDATE agent_runs SET pid = ? WHERE agent = ? AND starts = ? AND state = 'running'`, pid,
			b.Agent.Name, b.starts); err != nil {
			return err
		}
		return b.span.Save(t, t.Clock, t.Actor, "")
	})
}

// RunEnd describes how a run ended.
type RunEnd struct {
	Outcome string // how it ended, in words
	Output  string // the part of its output to keep
	Failed  bool   // it did not end as a session should
	Asked   bool   // it was ended because its agent has stopped
}

// End records how a run ended. A run that read none of the messages in its inbox has failed, whatever its exit
// status, because otherwise it would be started again forever. After a failure it is started again after the next
// wait of the setting start.ladder. After the last wait it is given up until there is a new message, and the
// manager is notified. Afterwards the agent is idle, unless it has set another status than working itself.
func (s *Sessions) End(ctx context.Context, b *Begun, e RunEnd) error {
	return s.ledger.Write(ctx, store.Alone, func(t *ledger.Tx) error { return endRun(t, b, e) })
}

func endRun(t *ledger.Tx, b *Begun, e RunEnd) error {
	status, _, err := agents.LatestStatus(t.Conn, b.Agent.Name)
	if err != nil {
		return err
	}
	if e.Asked || status == orchestrator.Stopped {
		e.Failed = false
	} else if !e.Failed {
		idle, err := readNothing(t, b)
		if err != nil {
			return err
		}
		if idle {
			e.Failed, e.Outcome = true, e.Outcome+", but the agent has not read any of its messages"
		}
	}
	failure := ""
	if e.Failed {
		if said := strings.Join(strings.Fields(orchestrator.LastLines(e.Output)), " "); said != "" {
			e.Outcome += "; last output: " + said
		}
		failure = e.Outcome
	}
	b.span.End()
	b.span.Set("outcome", e.Outcome)
	b.span.Set("output", e.Output)
	if err := b.span.Save(t, t.Clock, t.Actor, failure); err != nil {
		return err
	}
	return storeEnd(t, b, e)
}

// readNothing reports whether all messages that were unread in the inbox when a run began are still unread.
func readNothing(t *ledger.Tx, b *Begun) (bool, error) {
	for _, id := range b.unread {
		n, err := t.Number(`SELECT count(*) FROM agent_inbox WHERE message_id = ? AND recipient = ? AND read_at = ''`,
			id, b.Agent.Name)
		if err != nil || n == 0 {
			return false, err
		}
	}
	return len(b.unread) > 0, nil
}

// storeEnd stores the end of a run and plans the next. The agent may have been removed meanwhile.
func storeEnd(t *ledger.Tx, b *Begun, e RunEnd) error {
	conf := t.Config()
	run, err := LastRun(t.Conn, b.Agent.Name)
	if err != nil || run == nil || run.Starts != b.starts || conf.Agents[b.Agent.Name] == nil {
		return err
	}
	state, next, failures := Ended, "", int64(0)
	if e.Failed {
		failures = run.Failures + 1
		state = GivenUp
		if waits := conf.Settings.StartLadder; failures <= int64(len(waits)) {
			state, next = Failed, orchestrator.Stamp(t.Clock.Add(waits[max(failures, 1)-1]))
		}
	}
	if err := t.Run(`UPDATE agent_runs SET state = ?, ended_at = ?, outcome = ?, failures = ?, next_at = ?
		WHERE agent = ?`,
		string(state), t.Now, e.Outcome, failures, next, b.Agent.Name); err != nil {
		return err
	}
	if err := sessionEnded(t, b.Agent.Name, e.Outcome); err != nil || state != GivenUp {
		return err
	}
	return agents.TellManager(t, "agent_failed", b.Agent.Name, map[string]any{
		"agent": b.Agent.Name, "outcome": e.Outcome, "failures": failures, "last_message_id": b.MessageID,
		"message": fmt.Sprintf("the session of %s failed %s in a row, and Mailroom does not restart it until the agent gets a new message", b.Agent.Name, orchestrator.Plural(int(failures), "time")),
	})
}

// startChanged clears the failures of an agent whose start command or working folder was changed.
func startChanged(t *ledger.Tx, before, after *ledger.Agent) error {
	if before.StartCommand == after.StartCommand && before.Folder == after.Folder {
		return nil
	}
	return t.Run(`UPDATE agent_runs SET state = 'failed', failures = 0, next_at = '' WHERE agent = ?
		AND state IN ('failed','given_up')`, after.Name)
}

// forgetRuns deletes the run of a removed agent.
func forgetRuns(t *ledger.Tx, agent string) error {
	return t.Run(`DELETE FROM agent_runs WHERE agent = ?`, agent)
}
