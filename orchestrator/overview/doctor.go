package overview

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// DoctorOptions configures Doctor.
type DoctorOptions struct {
	Try   bool // send a test message through the transport of each agent: see delivery.TryTransports
	Quick bool // skip the checks that read every row if the database is large, and report that they were skipped
}

// Doctor checks the file or server, the tables, and the messages that wait. It only reads, unless how.Try is set. A
// check that cannot be run is a finding, too. After the first check of the tables that fails, the others are skipped,
// because on a server a failed statement ends the transaction.
func Doctor(ctx context.Context, l *ledger.Ledger, how DoctorOptions) Findings {
	d := &doctor{ledger: l, quick: how.Quick}
	check, ok := l.Store.(store.Checker)
	if ok {
		check.CheckPlace(ctx, d.Report)
	}
	if !l.Store.Exists() {
		return d.Findings
	}
	locked := ok && check.CheckLock(ctx, d.Report)
	d.content(ctx)
	switch {
	case how.Try && locked:
		d.Report("trials", Problem, "no test message was sent, because Mailroom cannot write to the database", "")
	case how.Try:
		d.trials(ctx)
	}
	return d.Findings
}

type doctor struct {
	ledger *ledger.Ledger
	quick  bool
	Findings
}

// content checks the contents of the database, until an error prevents it from being read.
func (d *doctor) content(ctx context.Context) {
	err := d.tables(ctx)
	file, ok := d.ledger.Store.(store.FileChecker)
	var own *orchestrator.Error
	if ok && errors.As(err, &own) {
		if do := file.Recovery(err); do != "" {
			d.Report("database", Problem, fmt.Sprintf("%s: %v", own.Message, own.Err), do)
			return
		}
	}
	if err != nil {
		d.fail("database", "", err)
	}
}

// fail adds a database error without its cause. If the database is locked, it also omits the hint, because the
// finding about the lock has more detail.
func (d *doctor) fail(code, says string, err error) {
	var own *orchestrator.Error
	switch {
	case !errors.As(err, &own):
		d.Report(code, Problem, says+err.Error(), "")
	case own.Code == orchestrator.Busy:
		d.Report(code, Problem, says+own.Message, "")
	default:
		d.Report(code, Problem, says+own.Message, own.Hint)
	}
}

func (d *doctor) tables(ctx context.Context) error {
	all := d.looksAtAll()
	if file, ok := d.ledger.Store.(store.FileChecker); ok {
		var found Findings
		err := d.ledger.Read(ctx, func(c *store.Conn) error {
			found = nil
			return file.CheckTables(c, all, found.Report)
		})
		if d.Findings = append(d.Findings, found...); err != nil {
			return err
		}
	}
	var found Findings
	err := d.ledger.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		s, err := takeSnapshot(c, d.ledger, conf)
		if err != nil {
			return err
		}
		x, err := s.examine(func(*check) bool { return true })
		found = x.Findings
		return err
	})
	d.Findings = append(d.Findings, found...)
	if err == nil {
		err = d.passwords(ctx)
	}
	if err == nil && all {
		err = d.everyRow(ctx)
	}
	return err
}

// trials sends each agent a test message.
func (d *doctor) trials(ctx context.Context) {
	trials, err := delivery.TryTransports(ctx, d.ledger)
	if err != nil {
		d.fail("trials", "not all transports were tested: ", err)
	}
	worked := 0
	for _, t := range trials {
		arrived := "a test message through " + t.Deliver + " did not arrive: " + t.Says
		switch {
		case t.Delivered:
			worked++
		case t.MessageID == "":
			d.ReportOf("trial", t.Agent, Note, "the transport "+t.Deliver+" was not tested: "+t.Says, "")
		case t.PutOff:
			d.ReportOf("trial", t.Agent, Note,
				"the recipient of a test message through "+t.Deliver+
					" asked for a later retry, so the test ended: "+t.Says, "")
		case t.Disabled:
			d.ReportOf("trial", t.Agent, Problem, arrived+". Mailroom has disabled the transport", "To set another address, run `mailroom agent add "+
				t.Agent+" --deliver ...`")
		default:
			d.ReportOf("trial", t.Agent, Problem, arrived, "To see the attempt, run `mailroom trace "+t.MessageID+"`")
		}
	}
	if worked > 0 {
		d.Report("trials", Fine, orchestrator.Plural(worked, "test message")+" arrived", "")
	}
}

// quickBytes is the size up to which a quick examination reads every row of a database, which takes half a second.
const quickBytes = 64 << 20

// looksAtAll reports whether to run the checks that read every row. If not, it adds a finding.
func (d *doctor) looksAtAll() bool {
	bytes, _ := d.ledger.Size()
	if !d.quick || bytes <= quickBytes {
		return true
	}
	d.Report("every row", Note, fmt.Sprintf(
		"the database is %d MB, so these were not checked: whether the database is intact, whether its counts are right, and whether each message has a trace", bytes>>20),
		"To check every row, run `mailroom doctor` without `--quick`")
	return false
}

// everyRow runs the checks that read every row, except those of the file itself.
func (d *doctor) everyRow(ctx context.Context) error {
	var wrong []string
	err := d.ledger.Read(ctx, func(c *store.Conn) (err error) {
		wrong, err = ledger.Miscounted(c)
		return err
	})
	if len(wrong) > 0 {
		d.Report("counts", Problem, fmt.Sprintf("`mailroom status` prints %s incorrectly; the differences are: %s", orchestrator.Plural(len(wrong),
			"count"), strings.Join(wrong[:min(len(wrong), 5)], ", ")),
			"To correct the counts, run `mailroom recount`")
	}
	if err != nil {
		return err
	}
	n, err := d.untraced(ctx)
	switch {
	case err != nil:
		return err
	case n == 0:
		d.Report("trace", Fine, "every message has a trace", "")
		return nil
	}
	d.Report("trace", Problem, "found "+orchestrator.Plural(int(n), "message")+
		" without a trace, although traced_status is set",
		"If somebody deleted trace rows, restore them from a backup. If somebody set traced_status, which only Mailroom may set, run "+
			"`"+byHand(d.ledger, "UPDATE agent_message SET traced_status = '' WHERE message_id = 'ID'")+
			"`, and Mailroom imports the row. Then, to correct the counts, run `mailroom recount`")
	return nil
}

// untracedStep is how many rows untraced examines in one transaction.
const untracedStep = 20_000

// untraced counts the messages that have no trace and should have one. Each step is a transaction of its own, because
// one long transaction would block checkpoints of the write-ahead log, or vacuuming on a server.
func (d *doctor) untraced(ctx context.Context) (n int64, err error) {
	from, more := int64(math.MinInt64), true
	for more && err == nil {
		var found, upTo int64
		err = d.ledger.Read(ctx, func(c *store.Conn) (err error) {
			upTo, more = math.MaxInt64, false
			err = c.Query(`SELECT seq FROM agent_message WHERE seq > ?1 ORDER BY seq LIMIT 1 OFFSET +?2`,
				func(row store.Row) error {
					upTo, more = row.Int(0), true
					return nil
				}, from, untracedStep-1)
			if err == nil {
				found, err = c.Number(`SELECT count(*) FROM agent_message m WHERE seq > ?1 AND seq <= ?2
					AND traced_status <> ''
					AND NOT EXISTS (SELECT 1 FROM message_trace t WHERE t.message_id = m.message_id)`, from, upTo)
			}
			return err
		})
		if n, from = n+found, upTo; err == nil {
			err = ctx.Err()
		}
	}
	return n, err
}
