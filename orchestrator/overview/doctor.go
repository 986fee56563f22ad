package overview

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/daemons"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/push"
	"mailroom/orchestrator/schedules"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// Finding is the result of one check of Doctor.
type Finding struct {
	Check string `json:"check"`
	Agent string `json:"agent,omitempty"` // whose transport it is about
	Host  string `json:"host,omitempty"`  // that it is about
	Level string `json:"level"`           // ok, note, problem
	Says  string `json:"says"`
	Do    string `json:"do,omitempty"`
}

// Doctor checks the file, its tables, and what waits in them. A check that fails does not keep the others from being made. It
// only reads, unless try is set: then it sends a test message through the transport of each agent, see delivery.TryTransports.
func Doctor(ctx context.Context, l *ledger.Ledger, try bool) []Finding {
	return (&doctor{ledger: l}).examine(ctx, try)
}

// QuickDoctor is Doctor for who asks often: of a large database it leaves out the checks that read every row, and says so.
func QuickDoctor(ctx context.Context, l *ledger.Ledger, try bool) []Finding {
	return (&doctor{ledger: l, quick: true}).examine(ctx, try)
}

func (d *doctor) examine(ctx context.Context, try bool) []Finding {
	l := d.ledger
	check, ok := l.Store.(store.Checker)
	if ok {
		check.CheckPlace(d.add)
	}
	locked := l.Store.Exists() && ok && check.CheckLock(ctx, d.add)
	d.content(ctx)
	switch {
	case !try || !l.Store.Exists():
	case locked:
		d.add("trials", "problem", "no test message was sent: it could not be written", "")
	default:
		d.trials(ctx)
	}
	return d.findings
}

// trials sends each agent a test message.
func (d *doctor) trials(ctx context.Context) {
	trials, err := delivery.TryTransports(ctx, d.ledger)
	if err != nil {
		d.failed("trials", "the agents' transports were not all tried: ", err)
	}
	worked := 0
	for _, t := range trials {
		switch {
		case t.Delivered:
			worked++
		case t.MessageID == "":
			d.add("trial of "+t.Agent, "note", "not tried through "+t.Deliver+": "+t.Says, "")
		case t.PutOff:
			d.add("trial of "+t.Agent, "note", "a test message through "+t.Deliver+" got as far as the answer to come another time, and was given up: "+t.Says, "")
		case t.Disabled:
			d.add("trial of "+t.Agent, "problem", "a test message through "+t.Deliver+" did not arrive: "+t.Says+". That transport is disabled now",
				"`mailroom agent add "+t.Agent+" --deliver ...`")
		default:
			d.add("trial of "+t.Agent, "problem", "a test message through "+t.Deliver+" did not arrive: "+t.Says,
				"`mailroom trace "+t.MessageID+"` shows the attempt")
		}
	}
	if worked > 0 {
		d.add("trials", "ok", orchestrator.Plural(worked, "test message")+" arrived", "")
	}
}

type doctor struct {
	ledger   *ledger.Ledger
	quick    bool
	findings []Finding
}

func (d *doctor) add(check, level, says, do string) {
	d.findings = append(d.findings, Finding{Check: check, Level: level, Says: says, Do: do})
}

// addTransport adds a problem of an agent's transport.
func (d *doctor) addTransport(agent, says, do string) {
	d.findings = append(d.findings, Finding{Check: "transport of " + agent, Agent: agent, Level: "problem", Says: says, Do: do})
}

// addHost adds what was found of a host.
func (d *doctor) addHost(host, level, says, do string) {
	d.findings = append(d.findings, Finding{Check: "host " + host, Host: host, Level: level, Says: says, Do: do})
}

func (d *doctor) content(ctx context.Context) {
	if !d.ledger.Store.Exists() {
		return
	}
	all := d.looksAtAll()
	check, ok := d.ledger.Store.(store.FileChecker)
	err := d.ledger.Read(ctx, func(c *store.Conn) error {
		if !ok {
			return nil
		}
		return check.CheckTables(c, all, d.add)
	})
	if err == nil {
		err = d.ledger.Read(ctx, func(c *store.Conn) error {
			conf, err := d.ledger.Config.Load(c)
			if err != nil {
				return err
			}
			if err := d.trust(c, conf); err != nil {
				return err
			}
			return d.messages(c, conf)
		})
	}
	if err == nil {
		err = d.passwords(ctx)
	}
	if err == nil && all {
		err = d.everyRow(ctx)
	}
	var own *orchestrator.Error
	if ok && errors.As(err, &own) {
		if do := check.Recovery(err); do != "" {
			d.add("database", "problem", fmt.Sprintf("%s: %v", own.Message, own.Err), do)
			return
		}
	}
	if err != nil {
		d.failed("database", "", err)
	}
}

// failed adds an error as a problem, and its hint as what to do.
func (d *doctor) failed(check, says string, err error) {
	var own *orchestrator.Error
	switch {
	case !errors.As(err, &own):
		d.add(check, "problem", says+err.Error(), "")
	case own.Code == orchestrator.Busy:
		d.add(check, "problem", says+own.Message, "") // the finding about the lock says more than that hint
	default:
		d.add(check, "problem", says+own.Message, own.Hint)
	}
}

// trust says whether the database may act outside of itself, and whether that makes a difference.
func (d *doctor) trust(c *store.Conn, conf *ledger.Config) error {
	if d.ledger.Trust == nil {
		return nil
	}
	if conf.Untrusted == "" {
		d.add("trust", "ok", "made or trusted on this machine", "")
		return nil
	}
	outside, err := schedules.OutsideOf(d.ledger, c, conf)
	level := "problem"
	if len(outside) == 0 {
		level = "note"
	}
	d.add("trust", level, ledger.NotTrusted+": "+conf.Untrusted, ledger.NotTrustedHint)
	return err
}

// addCount adds how many of something a check has found.
func (d *doctor) addCount(n int64, check, level, says, noun, do string) {
	if n == 0 {
		d.add(check, "ok", "none", "")
		return
	}
	d.add(check, level, fmt.Sprintf(says, orchestrator.Plural(int(n), noun)), do)
}

// traffic reports agents that write to each other too much, how many daemons run, and what waits for one.
func (d *doctor) traffic(c *store.Conn, conf *ledger.Config) error {
	s, err := takeSnapshot(c, d.ledger, conf)
	if err != nil {
		return err
	}
	exchanges, err := s.runaway()
	for i := range exchanges {
		e := &exchanges[i]
		d.add("exchange of "+strings.Join(e.From, " and "), "note", e.Says+": "+e.Because, e.Do)
	}
	if err != nil {
		return err
	}
	running, err := daemons.ListIn(c, d.ledger)
	if err != nil {
		return err
	}
	if len(running) > 0 {
		d.add("daemon", "ok", orchestrator.Plural(len(running), "daemon")+" running", "")
		return nil
	}
	missed, err := s.missedDaemon()
	if missed != nil {
		d.add("daemon", "note", missed.Says+": "+missed.Because, missed.Do)
	} else if err == nil {
		d.add("daemon", "ok", "none runs, and nothing waits for one", "")
	}
	return err
}

// messages looks for what an operator should know about the rows.
func (d *doctor) messages(c *store.Conn, conf *ledger.Config) error {
	now := orchestrator.Stamp(d.ledger.Now())
	overdue := orchestrator.Stamp(d.ledger.Now().Add(-conf.Settings.OverdueAfter))
	if err := d.traffic(c, conf); err != nil {
		return err
	}
	for _, check := range []struct {
		name, level, says, noun, do, query string
		args                               []any
	}{
		{"overdue", "problem", "%s undelivered for longer than " + orchestrator.FormatDuration(conf.Settings.OverdueAfter), "message",
			"`mailroom sql --named overdue` lists them, `mailroom why ID` says what holds each",
			`SELECT count(*) FROM agent_message WHERE ` + ledger.Live + ` AND created_at < ?1 AND not_before < ?1`, []any{overdue}},
		{"dead letters", "note", "%s", "dead letter", "`mailroom dead_letters list`, then `mailroom dead_letters replay ID`",
			`SELECT count(*) FROM agent_message WHERE status IN ('failed','expired') AND recipient NOT LIKE '` + push.DevicePrefix + `%'`, nil},
		{"leases", "note", "%s ran out, until the next delivery run comes by", "lease", "`mailroom deliver_all`",
			`SELECT count(*) FROM agent_message WHERE ` + ledger.Leased + ` AND lease_until <= ?`, []any{now}},
		{"leases without an owner", "problem", "%s that somebody wrote by hand: no process holds it, and what its sender sent to that agent waits until it ends", "lease",
			"`mailroom sql --named leases` lists them, `mailroom why ID` says what to do about each",
			`SELECT count(*) FROM agent_message WHERE ` + ledger.Leased + ` AND ` + ledger.Unowned + ` AND lease_until > ?`, []any{now}},
		{"silent agents", "problem", "%s silent for too long", "agent", "`mailroom agent list` shows them",
			`SELECT count(*) FROM heartbeats WHERE told_at <> ''`, nil},
		{"sessions", "problem", "%s whose sessions failed until they were given up", "agent", "`mailroom agent list` shows them, `mailroom agent show NAME` how they ended",
			`SELECT count(*) FROM agent_runs WHERE state = 'given_up'`, nil},
	} {
		n, err := c.Number(check.query, check.args...)
		if err != nil {
			return err
		}
		d.addCount(n, check.name, check.level, check.says, check.noun, check.do)
	}
	recipients := func(c *store.Conn) error { return d.recipients(c, conf) }
	machines := func(c *store.Conn) error { return d.machines(c, conf) }
	copies := func(c *store.Conn) error { return d.copies(c, conf) }
	for _, check := range []func(c *store.Conn) error{d.exports, recipients, machines, d.hosts, d.files, copies} {
		if err := check(c); err != nil {
			return err
		}
	}
	d.odd(conf)
	return d.agents(c, conf)
}

// target checks a transport and address of an agent. Where the check for a new agent would make what is missing, one that
// makes nothing takes its place: what is missing may be on a disk that is not mounted.
func (d *doctor) target(a *ledger.Agent, target string) error {
	transport, address := d.ledger.TransportOf(target)
	if placing, ok := transport.(orchestrator.Placing); ok {
		return placing.CheckPlace(a.Name, address)
	}
	_, err := agents.CheckDeliver(d.ledger, "deliver", target, a.Folder)
	return err
}

// agents checks that every agent's transport exists and takes its address.
func (d *doctor) agents(c *store.Conn, conf *ledger.Config) error {
	bad := 0
	for _, name := range conf.Names {
		if conf.Untrusted != "" {
			break // addresses that somebody else wrote are not looked at
		}
		if reason := conf.Agents[name].Disabled; reason != "" {
			bad++
			d.addTransport(name, "it is disabled since "+reason, "`mailroom agent enable "+name+"`; or another address: `mailroom agent add "+name+" --deliver ...`")
			continue
		}
		if conf.Agents[name].Away() {
			continue // what is there cannot be seen from here
		}
		targets := []string{conf.Agents[name].Deliver, conf.Agents[name].Fallback}
		if start := conf.Agents[name].StartCommand; start != "" && d.ledger.Transports["exec"] != nil {
			targets = append(targets, "exec:"+start)
		}
		for _, target := range targets {
			if target == "" {
				continue
			}
			if err := d.target(conf.Agents[name], target); err != nil {
				bad++
				d.addTransport(name, err.Error(), "`mailroom agent add "+name+" --deliver ...`")
			}
		}
	}
	d.manager(conf)
	if bad > 0 {
		return nil
	}
	says := orchestrator.Plural(len(conf.Names), "agent")
	if d, ok := c.Driver.(interface{ CountInboxViews() (int64, error) }); ok {
		views, err := d.CountInboxViews()
		if err != nil {
			return err
		}
		says += fmt.Sprintf(", %d inbox views", views)
	}
	d.add("agents", "ok", says, "")
	return nil
}

// manager looks whether anybody is told when agents fall silent, or their sessions fail.
func (d *doctor) manager(conf *ledger.Config) {
	var untold []string
	for _, name := range conf.Names {
		if agents.SilenceUnreported(conf, name) {
			untold = append(untold, name)
		}
	}
	if len(untold) > 0 {
		d.add("manager", "note", "nobody is told when "+strings.Join(untold, ", ")+" falls silent or fails to start: there is no agent "+conf.Settings.Manager,
			"`mailroom agent add "+conf.Settings.Manager+"`, or name another with `mailroom setting set ralph.pm NAME`")
	}
}

// exports tells how far the traces were sent to a collector, if they ever were.
func (d *doctor) exports(c *store.Conn) error {
	return c.Query(`SELECT (SELECT max(id) FROM message_trace) - events, refused, missed, sent_at, lease_until > ?1 FROM exports`, func(row store.Row) error {
		behind, lost, at, sends := max(0, row.Int(0)), row.Int(1)+row.Int(2), row.Text(3), row.Int(4) != 0
		says := fmt.Sprintf("%s behind; last sent at %s", orchestrator.Plural(int(behind), "event"), cmp.Or(at, "no time"))
		switch {
		case lost > 0:
			d.add("traces sent", "note", fmt.Sprintf("%s; %d refused by the collector, or deleted before they were sent", says, lost), "See docs/opentelemetry.md")
		case behind > 0 && !sends:
			d.add("traces sent", "note", says+"; no daemon sends them", "`mailroom serve --otlp URL`")
		default:
			d.add("traces sent", "ok", says, "")
		}
		return nil
	}, orchestrator.Stamp(d.ledger.Now()))
}

// files tells of what ralph watch could not take in, the first few by name.
func (d *doctor) files(c *store.Conn) error {
	const name, shown = "files not taken in", 3
	n, err := c.Number(`SELECT count(*) FROM bridge_problems`)
	if err != nil {
		return err
	}
	list, err := c.Texts(`SELECT path || ': ' || problem FROM bridge_problems ORDER BY path LIMIT +?`, shown)
	if err != nil {
		return err
	}
	switch {
	case n == 0:
		d.add(name, "ok", "none", "")
		return nil
	case n > shown:
		list = append(list, "and "+orchestrator.Plural(int(n)-shown, "other"))
	}
	d.add(name, "problem", fmt.Sprintf("ralph watch found %s that it could not take in. %s", orchestrator.Plural(int(n), "file"), strings.Join(list, "; ")),
		"`mailroom sql 'SELECT path, problem FROM bridge_problems'`")
	return nil
}

// copies tells of what killed backups and restores left: beside the database, and where its backups go, unless somebody else may have
// written where that is.
func (d *doctor) copies(c *store.Conn, conf *ledger.Config) error {
	check, ok := d.ledger.Store.(store.FileChecker)
	if !ok {
		return nil
	}
	files, err := c.Texts(`
		SELECT json_extract(attributes, '$."` + tracing.AttrDirectory + `"') || '/any' FROM command_trace
		WHERE name = 'backup' AND json_valid(attributes)
		UNION SELECT json_extract(params, '$.file') FROM schedules WHERE command = 'backup' AND json_valid(params)`)
	if err != nil {
		return err
	}
	folders := []string{filepath.Dir(d.ledger.Path())}
	for _, file := range files {
		if conf.Untrusted == "" && filepath.IsAbs(file) {
			folders = append(folders, filepath.Dir(file))
		}
	}
	check.CheckCopies(folders, d.add)
	return nil
}
