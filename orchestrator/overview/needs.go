package overview

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/daemons"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/questions"
	"mailroom/orchestrator/schedules"
	"mailroom/orchestrator/store"
)

// Need is something that waits for a person.
type Need struct {
	Kind    string   `json:"kind"`              // moved, trust, daemon, failed, overdue, exchange, unread, disabled, phone or question
	Agent   string   `json:"agent,omitempty"`   // recipient that it is about, or the agent that asks
	Unknown bool     `json:"unknown,omitempty"` // nobody has the agent's name
	Count   int64    `json:"count,omitempty"`   // messages, or questions
	Says    string   `json:"says"`              // one sentence
	Because string   `json:"because,omitempty"`
	From    []string `json:"from,omitempty"`  // who sent those messages, or asks too
	Since   string   `json:"since,omitempty"` // since when, as far as that is known
	ID      string   `json:"id,omitempty"`    // of the oldest message or question
	Error   string   `json:"error,omitempty"` // of the newest of those that failed: messages.DeadLetterFilter selects them by it
	Do      string   `json:"do"`              // what helps
}

// Needed is what waits for a person, and what else one asks first.
type Needed struct {
	Needs    []Need `json:"needs"`
	Agents   int    `json:"agents"`             // the operator and the user not counted
	Messages int64  `json:"messages"`           // that there have ever been, as far as their numbers tell
	Daemons  int    `json:"daemons"`            // that run
	Begun    string `json:"begun_at,omitempty"` // when the database was made
}

// mostNeeds is how many of each kind are listed one by one.
const mostNeeds = 12

// needs are the needs that are found, and how.
type needs struct {
	*snapshot
	list    []Need
	daemons int
}

// Needs returns what waits for a person: messages that failed, that are overdue or that nobody reads, transports that are disabled,
// questions, and what keeps everything from moving. It asks little of the database, however many messages there are; what takes
// longer to find Doctor says.
func Needs(ctx context.Context, l *ledger.Ledger) (r Needed, err error) {
	err = l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		s, err := takeSnapshot(c, l, conf)
		if err != nil {
			return err
		}
		n := &needs{snapshot: s}
		for _, find := range []func() error{n.place, n.engine, n.failed, n.stuck, n.exchanges, n.unreadMail, n.phones, n.questions} {
			if err := find(); err != nil {
				return err
			}
		}
		r = Needed{Needs: n.list, Agents: len(conf.Names), Daemons: n.daemons}
		if r.Needs == nil {
			r.Needs = []Need{}
		}
		if r.Messages, err = c.Number(`SELECT coalesce(max(seq), 0) FROM agent_message`); err != nil {
			return err
		}
		r.Begun, _, err = c.Text(`SELECT started_at FROM command_trace WHERE id = (SELECT min(id) FROM command_trace)`)
		return err
	})
	return r, err
}

func (n *needs) add(need Need) { n.list = append(n.list, need) }

// place tells of a database that has moved, or that is not trusted.
func (n *needs) place() error {
	if to := n.conf.Stored[store.MovedTo]; to != "" {
		n.add(Need{Kind: "moved", Says: "This database has moved, and takes no messages any more", Because: "it is at " + to + " now", Do: "Use that from now on"})
	}
	if n.conf.Untrusted == "" || n.l.Trust == nil {
		return nil
	}
	outside, err := schedules.OutsideOf(n.l, n.c, n.conf)
	if len(outside) > 0 {
		n.add(Need{Kind: "trust", Says: "This database is not trusted, and does nothing outside of itself", Because: ledger.NotTrusted + ": " + n.conf.Untrusted, Do: ledger.NotTrustedHint})
	}
	return err
}

// engine tells that nobody delivers: no daemon runs, or none on a host to which agents belong.
func (n *needs) engine() error {
	running, err := daemons.ListIn(n.c, n.l)
	if err != nil {
		return err
	}
	n.daemons = len(running)
	if n.daemons == 0 {
		missed, err := n.missedDaemon()
		if missed != nil {
			n.add(*missed)
		}
		return err
	}
	d := &doctor{ledger: n.l}
	err = d.machines(n.c, n.conf)
	for _, f := range d.findings {
		if f.Level == "problem" {
			n.add(Need{Kind: "daemon", Says: "No daemon runs on " + f.Host, Because: f.Says, Do: f.Do})
		}
	}
	return err
}

// missedDaemon returns what waits for a daemon where none runs, nil if nothing does. What an agent finds in its inbox it fetches
// itself; a daemon takes messages to other places, starts agents that have mail, and runs schedules that somebody added.
func (s *snapshot) missedDaemon() (*Need, error) {
	need := Need{Kind: "daemon", Do: "`mailroom serve`, or `mailroom service install`"}
	for _, m := range s.members {
		if m.agent == nil || m.agent.Disabled != "" || m.agent.StartCommand == "" && s.l.SetTransport(m.agent) != nil {
			continue
		}
		waiting := m.Pending - m.backlog.Later
		if m.agent.StartCommand != "" {
			waiting += m.Unread
		}
		if need.Count += waiting; waiting > 0 {
			need.Since = earlier(need.Since, cmp.Or(m.backlog.OldestAt, m.unreadAt))
		}
	}
	scheduled, err := schedules.Own(s.c)
	switch {
	case err != nil || need.Count == 0 && scheduled == 0:
		return nil, err
	case need.Count == 0:
		need.Says = "No daemon runs, and " + plural(scheduled, "schedule waits", "schedules wait") + " for one"
		need.Because = "nothing else runs what `mailroom schedule list` shows"
	default:
		need.Says = "No daemon runs, and " + plural(need.Count, "message waits", "messages wait") + " for one"
		need.Because = "only a daemon starts agents; messages to files, commands and webhooks wait for it, or for `mailroom deliver_all`"
	}
	return &need, nil
}

// plural is a number with the words for one and for several.
func plural(n int64, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}

// sorted returns the members that a condition selects, those with most of something first.
func (n *needs) sorted(is func(m *Member) bool, most func(m *Member) int64) (list []*Member) {
	for _, m := range n.members {
		if is(m) {
			list = append(list, m)
		}
	}
	slices.SortFunc(list, func(a, b *Member) int { return cmp.Or(cmp.Compare(most(b), most(a)), cmp.Compare(a.Name, b.Name)) })
	return list
}

// fold adds a need for those that are too many to be listed.
func (n *needs) fold(kind, says, do string, left []*Member, most func(m *Member) int64) {
	if len(left) == 0 {
		return
	}
	need := Need{Kind: kind, Says: orchestrator.Plural(len(left), "more recipient") + " " + says, Do: do}
	for _, m := range left {
		need.Count += most(m)
	}
	n.add(need)
}

// stuck tells of recipients whose transport is disabled, and of those whose mail has been undelivered for too long.
func (n *needs) stuck() error {
	pending := func(m *Member) int64 { return m.Pending }
	disabled := n.sorted(func(m *Member) bool { return m.agent != nil && m.agent.Disabled != "" }, pending)
	late := n.sorted(func(m *Member) bool {
		return m.backlog.Overdue > 0 && (m.agent == nil || m.agent.Disabled == "")
	}, pending)
	for i, m := range late {
		if i == mostNeeds {
			n.fold("overdue", "get no mail either", "`mailroom status` lists them", late[i:], pending)
			break
		}
		if err := n.late(m); err != nil {
			return err
		}
	}
	for i, m := range disabled {
		if i == mostNeeds {
			n.fold("disabled", "are disabled, too", "`mailroom agent list` shows them", disabled[i:], pending)
			break
		}
		at, why, _ := strings.Cut(m.agent.Disabled, " ")
		need := Need{Kind: "disabled", Agent: m.Name, Count: m.Pending, Says: "The transport of " + m.Name + " is disabled", Because: strings.TrimLeft(why, "(: "), Since: at,
			Do: "`mailroom agent add " + orchestrator.ShellWord(m.Name) + " --deliver ...` names another address and lets its messages go"}
		if m.Pending > 0 {
			need.Says += ", and " + plural(m.Pending, "message waits", "messages wait") + " for another"
		}
		if strings.HasPrefix(need.Because, agents.ByHand) { // its address is as good as it was
			need.Says = m.Name + " is disabled"
			if m.Pending > 0 {
				need.Says += ", and " + plural(m.Pending, "message waits", "messages wait")
			}
			need.Do = "`mailroom agent enable " + orchestrator.ShellWord(m.Name) + "` lets its messages go"
		}
		var err error
		if need.From, need.ID, err = n.sendersTo(m.Name); err != nil {
			return err
		}
		n.add(need)
	}
	return nil
}

// late tells of a recipient whose mail has been undelivered for too long, and why the oldest message is.
func (n *needs) late(m *Member) error {
	oldest, err := ledger.Messages(n.c, `SELECT `+ledger.MessageColumns+` FROM agent_message WHERE seq = ?1`, m.backlog.overdueSeq)
	if err != nil || len(oldest) == 0 {
		return err
	}
	since := ledger.DueSince(&oldest[0])
	reason, err := explain(n.c, n.l, n.conf, &oldest[0], n.daemons)
	if err != nil {
		return err
	}
	need := Need{Kind: "overdue", Agent: m.Name, Unknown: !m.Known, Count: m.backlog.Overdue, Says: "Mail for " + m.Name + " is not delivered", Because: reason.Rule, Since: since, ID: oldest[0].ID, Do: reason.Fix}
	if !m.Known {
		need.Says = "Nobody has the name " + m.Name
	}
	if rest := m.Pending - m.backlog.Overdue; rest > 0 {
		need.Says += ", and " + plural(rest, "more message waits", "more messages wait")
	}
	if reason.LastError != "" && !strings.Contains(need.Because, reason.LastError) {
		need.Because = firstLine(reason.LastError) + "; " + need.Because
	}
	need.From, _, err = n.sendersTo(m.Name)
	n.add(need)
	return err
}

// firstLine is the first line of what a transport said.
func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// sendersTo returns who sent the first undelivered messages to a recipient, and the id of the first.
func (n *needs) sendersTo(recipient string) (senders []string, first string, err error) {
	err = n.c.Query(`SELECT sender, message_id FROM agent_message WHERE `+ledger.Live+` AND recipient = ?1 ORDER BY priority DESC, seq LIMIT +?2`, func(row store.Row) error {
		if first == "" {
			first = row.Text(1)
		}
		senders = append(senders, row.Text(0))
		return nil
	}, recipient, maxOldest)
	return byCount(senders), first, err
}

// byCount returns each name once, those that come most often first.
func byCount(names []string) (list []string) {
	times := map[string]int{}
	for _, name := range names {
		if times[name]++; times[name] == 1 {
			list = append(list, name)
		}
	}
	slices.SortStableFunc(list, func(a, b string) int { return times[b] - times[a] })
	return list
}

// unreadMail tells of agents that read no mail, and of mail for the operator, who is a person.
func (n *needs) unreadMail() error {
	unread := func(m *Member) int64 { return m.Unread }
	list := n.sorted(func(m *Member) bool {
		return m.Name == orchestrator.Operator && m.unreadAt != "" || m.Name != orchestrator.Operator && (m.agent == nil || m.agent.Disabled == "") && n.unreadTooLong(m)
	}, unread)
	for i, m := range list {
		if i == mostNeeds {
			n.fold("unread", "read no mail either", "`mailroom status` shows them", list[i:], unread)
			break
		}
		var senders []string
		need := Need{Kind: "unread", Agent: m.Name, Unknown: m.agent == nil, Count: m.Unread, Says: m.Name + " reads no mail", Because: n.whySilent(m), Since: m.unreadAt, Do: "`mailroom wait --recipient " + orchestrator.ShellWord(m.Name) + "` reads it here"}
		if m.Name == orchestrator.Operator {
			need.Says, need.Because = "Mail for whoever runs Mailroom is unread", "agents write to operator"
		}
		err := n.c.Query(`SELECT i.message_id, m.sender FROM agent_inbox i LEFT JOIN agent_message m ON m.message_id = i.message_id
			WHERE i.recipient = ?1 AND i.read_at = '' ORDER BY i.rowid LIMIT +?2`, func(row store.Row) error {
			need.ID = cmp.Or(need.ID, row.Text(0))
			if sender := row.Text(1); sender != "" {
				senders = append(senders, sender)
			}
			return nil
		}, m.Name, maxOldest)
		if err != nil {
			return err
		}
		need.From = byCount(senders)
		n.add(need)
	}
	return nil
}

// whySilent says when an agent was last heard of, and what would start it.
func (n *needs) whySilent(m *Member) string {
	says := "nothing was heard of it yet"
	if m.HeardAt != "" {
		says = "last heard at " + m.HeardAt
	}
	if m.readAt != "" && m.readAt < m.HeardAt {
		says += ", last read about " + m.readAt
	}
	switch {
	case m.agent == nil:
		return "nobody has that name any more"
	case m.agent.StartCommand == "":
		says += "; it has no start command, so nobody starts it"
	case n.daemons == 0:
		says += "; no daemon runs that would start it"
	case m.running:
		says += "; its session runs"
	default:
		says += "; `mailroom agent show " + orchestrator.ShellWord(m.Name) + "` says how its last session ended"
	}
	return says
}

// questions tells of the questions that a person can still answer, the first of them in its own words.
func (n *needs) questions() error {
	open, total, err := questions.OpenIn(n.c, n.now)
	if err != nil || len(open) == 0 {
		return err
	}
	slices.SortStableFunc(open, func(a, b questions.Question) int { return cmp.Compare(a.CreatedAt, b.CreatedAt) })
	first := &open[0]
	var said struct {
		Question string `json:"question"`
	}
	need := Need{Kind: "question", Agent: first.Asker, Count: total, Since: first.CreatedAt, ID: first.ID, Because: "it is open until " + first.ExpiresAt,
		Says: first.Asker + " asks something that only a paired device can read", Do: "Answer it on a paired device"}
	if !first.Encrypted && json.Unmarshal([]byte(first.Body), &said) == nil {
		need.Says = first.Asker + " asks: " + firstLine(said.Question)
	}
	var others []string
	for _, q := range open[1:] {
		others = append(others, q.Asker)
	}
	need.From = byCount(others)
	n.add(need)
	return nil
}
