package overview

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/daemons"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/schedules"
	"mailroom/orchestrator/sessions"
	"mailroom/orchestrator/store"
)

// A check examines one thing in the tables.
type check struct {
	code string // the code of its findings
	now  string // the lowest level of finding that Now returns; "": only Doctor runs the check
	fine string // what Doctor reports if the check finds nothing; "": nothing
	find func(x *examination) error
}

// checks are run in this order, in one transaction. Checks that take long are not listed here: see Doctor.
var checks = []check{
	{"moved", Problem, "", checkMoved},
	{"trust", Problem, "", checkTrust},
	{"daemon", Note, "", checkDaemon},
	{"host", Problem, "", checkHosts},
	{"failed", Note, "no message failed or expired", checkFailed},
	{"overdue", Problem, "no message is overdue", checkOverdue},
	{"disabled", Problem, "no transport is disabled", checkDisabled},
	{"exchange", Note, "", checkExchanges},
	{"hold", Note, "", checkHolds},
	{"unread", Note, "no message has been unread for long", checkUnread},
	{"user", Note, "", checkUser},
	{"phone", Note, "", checkPhones},
	{"question", Note, "", checkQuestions},
	{"unknown recipients", "", "no message waits for an unknown recipient", checkUnknown},
	{"leases", "", "no delivery has lasted longer than its lease", checkLeases},
	{"leases without an owner", "", "every lease has an owner", checkUnowned},
	{"silent agents", "", "no agent has been silent for too long", checkSilent},
	{"start commands", "", "no session has failed too often", checkGivenUp},
	{"traces sent", "", "", checkExports},
	{"sessions", "", "", checkSessions},
	{"effect", "", "no agent fills the context of another agent with messages that have little effect", checkEffect},
	{"files not taken in", "", "`mailroom ralph watch` has read every file", checkFiles},
	{"copies", "", "", checkCopies},
	{"invitations", "", "no invitation was used twice, and no attempt to join failed", checkJoins},
	{"configuration", "", "all settings are valid, and no group has the name of an agent", checkConfiguration},
	{"transport", "", "", checkTransports},
	{"manager", "", "", checkManager},
}

// examination holds the data that checks examine, and their findings.
type examination struct {
	*snapshot
	Findings
	check   *check           // the check that is running
	daemons []daemons.Daemon // the daemons that run
}

// examine runs the checks that wanted selects.
func (s *snapshot) examine(wanted func(*check) bool) (*examination, error) {
	x := &examination{snapshot: s}
	for i := range checks {
		if x.check = &checks[i]; !wanted(x.check) {
			continue
		}
		before := len(x.Findings)
		if err := x.check.find(x); err != nil {
			return x, err
		}
		if len(x.Findings) == before && x.check.fine != "" {
			x.add(Finding{Level: Fine, Says: x.check.fine})
		}
	}
	return x, nil
}

// add adds a finding of the check that is running.
func (x *examination) add(f Finding) {
	f.Code = x.check.code
	f.Now = x.check.now == Note && f.Level != Fine || x.check.now == Problem && f.Level == Problem
	x.Findings = append(x.Findings, f)
}

// addCount adds a finding with the number that a query returns, unless the number is 0.
func (x *examination) addCount(level, says, noun, do, query string, args ...any) error {
	n, err := x.c.Number(query, args...)
	if n > 0 {
		x.add(Finding{Level: level, Count: n, Says: fmt.Sprintf(says, orchestrator.Plural(int(n), noun)), Do: do})
	}
	return err
}

// addMembers adds a finding with the number of agents that a condition selects, unless there are none.
func (x *examination) addMembers(says, do string, is func(m *Member) bool) {
	if n := len(x.sorted(is, pending)); n > 0 {
		x.add(Finding{Level: Problem, Count: int64(n), Says: fmt.Sprintf(says, orchestrator.Plural(n, "agent")), Do: do})
	}
}

// checkMoved reports a database that has moved to another address.
func checkMoved(x *examination) error {
	if to := x.conf.Stored[store.MovedTo]; to != "" {
		x.add(Finding{Level: Problem, Says: "This database has moved and no longer accepts messages",
			Because: "its new address is " + to, Do: "Use the new address"})
	}
	return nil
}

// checkTrust reports whether this machine trusts the database to act outside of itself. If not, the finding is a
// problem only if something in the database acts outside.
func checkTrust(x *examination) error {
	if x.l.Trust == nil {
		return nil
	}
	if x.conf.Untrusted == "" {
		x.add(Finding{Level: Fine, Says: "the database was created or trusted on this machine"})
		return nil
	}
	outside, err := schedules.OutsideOf(x.l, x.c, x.conf)
	level := Problem
	if len(outside) == 0 {
		level = Note
	}
	x.add(Finding{
		Level: level, Says: "This database is not trusted on this machine",
		Because: ledger.NotTrusted + ": " + x.conf.Untrusted,
		Do:      ledger.NotTrustedHint,
	})
	return err
}

// checkUnknown finds messages to names that no agent has, unless they are overdue already.
func checkUnknown(x *examination) error {
	possible, impossible := 0, 0
	for name, m := range x.members {
		switch {
		case m.agent != nil || m.Pending == 0 || m.backlog.Overdue > 0:
		case orchestrator.CanBeAgent(name):
			possible++
		default:
			impossible++
		}
	}
	if possible > 0 {
		x.add(Finding{
			Level: Problem, Says: fmt.Sprintf("undelivered messages are addressed to %s that no agent has",
				orchestrator.Plural(possible, "name")),
			Do: "To see the names, run `mailroom status`. To create an agent, run `mailroom agent add NAME`. To cancel a message, run `mailroom cancel ID`",
		})
	}
	if impossible > 0 {
		x.add(Finding{
			Level: Problem, Says: fmt.Sprintf("undelivered messages are addressed to %s that no agent can have",
				orchestrator.Plural(impossible, "name")),
			Do: "To see the names, run `mailroom status`. To cancel a message, run `mailroom cancel ID`",
		})
	}
	return nil
}

func checkLeases(x *examination) error {
	return x.addCount(Note, "%s ended before delivery was complete; delivery continues in the next delivery run", "lease", "To start a delivery run, run `mailroom deliver_all`",
		`SELECT count(*) FROM agent_message WHERE `+ledger.Leased+` AND lease_until <= ?`, orchestrator.Stamp(x.now))
}

func checkUnowned(x *examination) error {
	return x.addCount(Problem, "%s without an owner (set with SQL). Until such a lease ends, later messages from the sender of the leased message to the same agent have to wait", "lease",
		"To list the leases, run `mailroom sql --named leases`. To see what to do about a lease, run `mailroom why ID`",
		`SELECT count(*) FROM agent_message WHERE `+ledger.Leased+` AND `+ledger.Unowned+` AND lease_until > ?`,
		orchestrator.Stamp(x.now))
}

func checkSilent(x *examination) error {
	x.addMembers("Mailroom has not heard from %s for longer than the time in `--silent-after`", "To see which agents, run `mailroom agent list`",
		func(m *Member) bool { return m.isSilent(x.now) })
	return nil
}

func checkGivenUp(x *examination) error {
	x.addMembers("Mailroom stopped starting %s after repeated failures",
		"To see which agents, run `mailroom agent list`. To see how the last session ended, run `mailroom agent show NAME`",
		func(m *Member) bool { return m.runIs(sessions.GivenUp) })
	return nil
}

// checkExports reports how far the traces were sent to a collector, if they were ever sent.
func checkExports(x *examination) error {
	return x.c.Query(`SELECT (SELECT max(id) FROM message_trace) - events, refused, missed, sent_at, lease_until > ?1
		FROM exports`, func(row store.Row) error {
		behind, lost, at, sends := max(0, row.Int(0)), row.Int(1)+row.Int(2), row.Text(3), row.Int(4) != 0
		f := Finding{Level: Fine, Says: fmt.Sprintf("%s not sent yet; last sent: %s", orchestrator.Plural(int(behind),
			"event"), cmp.Or(at, "never"))}
		switch {
		case lost > 0:
			f.Level, f.Do = Note, "See docs/opentelemetry.md"
			f.Says += fmt.Sprintf("; %d were rejected by the receiver or deleted before they were sent", lost)
		case behind > 0 && !sends:
			f.Level, f.Do = Note, "Run `mailroom serve --otlp URL`"
			f.Says += "; no daemon sends them"
		}
		x.add(f)
		return nil
	}, orchestrator.Stamp(x.now))
}

// checkFiles finds files that ralph watch could not read, and names the first few.
func checkFiles(x *examination) error {
	const shown = 3
	n, err := x.c.Number(`SELECT count(*) FROM bridge_problems`)
	if err != nil || n == 0 {
		return err
	}
	list, err := x.c.Texts(`SELECT path || ': ' || problem FROM bridge_problems ORDER BY path LIMIT +?`, shown)
	if n > shown {
		list = append(list, "and "+orchestrator.Plural(int(n)-shown, "other"))
	}
	x.add(Finding{
		Level: Problem, Count: n, Do: "To list the files, run `mailroom sql 'SELECT path, problem FROM bridge_problems'`",
		Says: fmt.Sprintf("`mailroom ralph watch` could not read %s: %s", orchestrator.Plural(int(n), "file"),
			strings.Join(list, "; ")),
	})
	return err
}

// checkConfiguration names the configuration values that are ignored.
func checkConfiguration(x *examination) error {
	for _, says := range x.conf.Odd {
		x.add(Finding{Level: Problem, Says: says, Do: "Somebody wrote this value with SQL. Correct the value with SQL or, if it is a setting, with `mailroom setting set KEY VALUE`"})
	}
	return nil
}

// Needed holds the findings that need a person, and the facts that a person asks for first.
type Needed struct {
	Findings Findings `json:"findings"`
	Agents   int      `json:"agents"`             // without the operator and the user
	Messages int64    `json:"messages"`           // how many there have ever been, judged by their sequence numbers
	Daemons  int      `json:"daemons"`            // that run
	Begun    string   `json:"begun_at,omitempty"` // when the database was created
}

// Now returns what needs a person: messages that failed, are overdue or remain unread, disabled transports,
// questions, and anything that stops all delivery. It runs only the checks of Doctor that cost little, however many
// messages there are.
func Now(ctx context.Context, l *ledger.Ledger) (r Needed, err error) {
	err = l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		s, err := takeSnapshot(c, l, conf)
		if err != nil {
			return err
		}
		x, err := s.examine(func(one *check) bool { return one.now != "" })
		if err != nil {
			return err
		}
		r = Needed{Findings: Findings{}, Agents: len(conf.Names), Daemons: len(x.daemons)}
		for _, f := range x.Findings {
			if f.Now {
				r.Findings = append(r.Findings, f)
			}
		}
		if r.Messages, err = c.Number(`SELECT coalesce(max(seq), 0) FROM agent_message`); err != nil {
			return err
		}
		r.Begun, _, err = c.Text(`SELECT started_at FROM command_trace WHERE id = (SELECT min(id) FROM command_trace)`)
		return err
	})
	return r, err
}
