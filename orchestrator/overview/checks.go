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

// A check looks at one thing in the tables.
type check struct {
	code string // of its findings
	now  string // Now makes it, and shows what it finds of this level and above; "": it is left to Doctor
	fine string // what Doctor says where it finds nothing; "" is nothing
	find func(x *examination) error
}

// checks are made in this order, in one transaction. What takes long is not among them: see Doctor.
var checks = []check{
	{"moved", Problem, "", checkMoved},
	{"trust", Problem, "", checkTrust},
	{"daemon", Note, "", checkDaemon},
	{"host", Problem, "", checkHosts},
	{"failed", Note, "no message failed or expired", checkFailed},
	{"overdue", Problem, "none", checkOverdue},
	{"disabled", Problem, "none", checkDisabled},
	{"exchange", Note, "", checkExchanges},
	{"hold", Note, "", checkHolds},
	{"unread", Note, "no mail has waited for its reader for long", checkUnread},
	{"phone", Note, "", checkPhones},
	{"question", Note, "", checkQuestions},
	{"unknown recipients", "", "nothing waits for a name that nobody has", checkUnknown},
	{"leases", "", "no delivery has outlasted its own", checkLeases},
	{"leases without an owner", "", "none", checkUnowned},
	{"silent agents", "", "none", checkSilent},
	{"start commands", "", "none was given up", checkGivenUp},
	{"traces sent", "", "", checkExports},
	{"sessions", "", "", checkSessions},
	{"effect", "", "no agent puts much into the context of another to little effect", checkEffect},
	{"files not taken in", "", "none", checkFiles},
	{"copies", "", "", checkCopies},
	{"invitations", "", "none was used twice, nor was one guessed at", checkJoins},
	{"configuration", "", "every setting can be read, and no group has the name of an agent", checkConfiguration},
	{"transport", "", "", checkTransports},
	{"manager", "", "", checkManager},
}

// examination is what checks look at, and what they have found.
type examination struct {
	*snapshot
	Findings
	check   *check           // that is made
	daemons []daemons.Daemon // that run
}

// examine makes these checks.
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

// add adds a finding of the check that is made.
func (x *examination) add(f Finding) {
	f.Code = x.check.code
	f.Now = x.check.now == Note && f.Level != Fine || x.check.now == Problem && f.Level == Problem
	x.Findings = append(x.Findings, f)
}

// addCount adds how many a query finds, if there are any.
func (x *examination) addCount(level, says, noun, do, query string, args ...any) error {
	n, err := x.c.Number(query, args...)
	if n > 0 {
		x.add(Finding{Level: level, Count: n, Says: fmt.Sprintf(says, orchestrator.Plural(int(n), noun)), Do: do})
	}
	return err
}

// addMembers adds how many agents a condition selects, if there are any.
func (x *examination) addMembers(says, do string, is func(m *Member) bool) {
	if n := len(x.sorted(is, pending)); n > 0 {
		x.add(Finding{Level: Problem, Count: int64(n), Says: fmt.Sprintf(says, orchestrator.Plural(n, "agent")), Do: do})
	}
}

// checkMoved finds a database that is somewhere else now.
func checkMoved(x *examination) error {
	if to := x.conf.Stored[store.MovedTo]; to != "" {
		x.add(Finding{Level: Problem, Says: "This database has moved, and takes no messages any more",
			Because: "it is at " + to + " now", Do: "Use that from now on"})
	}
	return nil
}

// checkTrust finds whether the database may act outside of itself, and whether that makes a difference.
func checkTrust(x *examination) error {
	if x.l.Trust == nil {
		return nil
	}
	if x.conf.Untrusted == "" {
		x.add(Finding{Level: Fine, Says: "made or trusted on this machine"})
		return nil
	}
	outside, err := schedules.OutsideOf(x.l, x.c, x.conf)
	level := Problem
	if len(outside) == 0 {
		level = Note
	}
	x.add(Finding{
		Level: level, Says: "This database is not trusted, and does nothing outside of itself",
		Because: ledger.NotTrusted + ": " + x.conf.Untrusted,
		Do:      ledger.NotTrustedHint,
	})
	return err
}

// checkUnknown finds messages to names that nobody has, which are not overdue yet.
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
			Level: Problem, Says: fmt.Sprintf("undelivered messages wait for %s that nobody has",
				orchestrator.Plural(possible, "name")),
			Do: "`mailroom status` shows them; `mailroom agent add NAME`, or `mailroom cancel ID`",
		})
	}
	if impossible > 0 {
		x.add(Finding{
			Level: Problem, Says: fmt.Sprintf("undelivered messages wait for %s that no agent can have",
				orchestrator.Plural(impossible, "name")),
			Do: "`mailroom status` shows them; `mailroom cancel ID` takes each message back",
		})
	}
	return nil
}

func checkLeases(x *examination) error {
	return x.addCount(Note, "%s ran out, until the next delivery run comes by", "lease", "`mailroom deliver_all`",
		`SELECT count(*) FROM agent_message WHERE `+ledger.Leased+` AND lease_until <= ?`, orchestrator.Stamp(x.now))
}

func checkUnowned(x *examination) error {
	return x.addCount(Problem, "%s that somebody wrote by hand: no process holds it, and what its sender sent to that agent waits until it ends", "lease",
		"`mailroom sql --named leases` lists them, `mailroom why ID` says what to do about each",
		`SELECT count(*) FROM agent_message WHERE `+ledger.Leased+` AND `+ledger.Unowned+` AND lease_until > ?`,
		orchestrator.Stamp(x.now))
}

func checkSilent(x *examination) error {
	x.addMembers("%s silent for too long", "`mailroom agent list` shows them",
		func(m *Member) bool { return m.isSilent(x.now) })
	return nil
}

func checkGivenUp(x *examination) error {
	x.addMembers("%s whose sessions failed until they were given up",
		"`mailroom agent list` shows them, `mailroom agent show NAME` how they ended",
		func(m *Member) bool { return m.runIs(sessions.GivenUp) })
	return nil
}

// checkExports finds how far the traces were sent to a collector, if they ever were.
func checkExports(x *examination) error {
	return x.c.Query(`SELECT (SELECT max(id) FROM message_trace) - events, refused, missed, sent_at, lease_until > ?1
		FROM exports`, func(row store.Row) error {
		behind, lost, at, sends := max(0, row.Int(0)), row.Int(1)+row.Int(2), row.Text(3), row.Int(4) != 0
		f := Finding{Level: Fine, Says: fmt.Sprintf("%s behind; last sent at %s", orchestrator.Plural(int(behind),
			"event"), cmp.Or(at, "no time"))}
		switch {
		case lost > 0:
			f.Level, f.Do = Note, "See docs/opentelemetry.md"
			f.Says += fmt.Sprintf("; %d refused by the collector, or deleted before they were sent", lost)
		case behind > 0 && !sends:
			f.Level, f.Do = Note, "`mailroom serve --otlp URL`"
			f.Says += "; no daemon sends them"
		}
		x.add(f)
		return nil
	}, orchestrator.Stamp(x.now))
}

// checkFiles finds what ralph watch could not take in, the first few by name.
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
		Level: Problem, Count: n, Do: "`mailroom sql 'SELECT path, problem FROM bridge_problems'`",
		Says: fmt.Sprintf("ralph watch found %s that it could not take in. %s", orchestrator.Plural(int(n), "file"),
			strings.Join(list, "; ")),
	})
	return err
}

// checkConfiguration names what is passed over in the configuration.
func checkConfiguration(x *examination) error {
	for _, says := range x.conf.Odd {
		x.add(Finding{Level: Problem, Says: says, Do: "Somebody wrote it by hand: mend it there"})
	}
	return nil
}

// Needed is what waits for a person, and what else one asks first.
type Needed struct {
	Findings Findings `json:"findings"`
	Agents   int      `json:"agents"`             // the operator and the user not counted
	Messages int64    `json:"messages"`           // that there have ever been, as far as their numbers tell
	Daemons  int      `json:"daemons"`            // that run
	Begun    string   `json:"begun_at,omitempty"` // when the database was made
}

// Now returns what waits for a person: messages that failed, that are overdue or that nobody reads, transports that are
// disabled, questions, and what keeps everything from moving. It is the part of Doctor that asks little of the
// database, however many messages there are.
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
