package overview

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/daemons"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/questions"
	"mailroom/orchestrator/schedules"
	"mailroom/orchestrator/sessions"
	"mailroom/orchestrator/store"
)

// mostOfEach is how many findings of each check are listed one by one.
const mostOfEach = 12

// checkDaemon finds work that waits for a daemon when none runs. An agent reads its inbox without a daemon. A daemon
// delivers messages to other places, starts agents that have mail, and runs schedules that somebody added.
func checkDaemon(x *examination) (err error) {
	if x.daemons, err = daemons.ListIn(x.c, x.l); err != nil {
		return err
	}
	if n := len(x.daemons); n > 0 {
		x.add(Finding{Level: Fine, Says: orchestrator.Plural(n, "daemon") + " running"})
		return nil
	}
	f := Finding{Level: Note, Do: "Run `mailroom serve`, or install a service with `mailroom service install`"}
	for _, m := range x.members {
		waiting := m.Pending - m.backlog.Later - m.backlog.Held
		switch a := m.agent; {
		case a == nil: // the next delivery run gives these messages up
		case a.Disabled != "" || a.StartCommand == "" && x.l.SetTransport(a) != nil:
			continue
		case a.StartCommand != "":
			waiting += m.Unread
		}
		if f.Count += waiting; waiting > 0 {
			f.Since = earlier(f.Since, cmp.Or(m.backlog.OldestAt, m.unreadAt))
		}
	}
	scheduled, err := schedules.Own(x.c)
	switch {
	case err != nil:
		return err
	case f.Count == 0 && scheduled == 0:
		f = Finding{Level: Fine, Says: "no daemon runs, and nothing waits for a daemon"}
	case f.Count == 0:
		f.Says = "No daemon runs, and " + plural(scheduled, "schedule waits", "schedules wait") + " for one"
		f.Because = "only a daemon runs schedules; to list them, run `mailroom schedule list`"
	default:
		f.Says = "No daemon runs, and " + plural(f.Count, "message waits", "messages wait") + " for one"
		f.Because = "only a daemon starts agents; messages to files, commands, and webhooks wait for a daemon or for `mailroom deliver_all`"
	}
	x.add(f)
	return nil
}

// plural formats a number with the words for one or for several.
func plural(n int64, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}

// sorted returns the members that a condition selects, ordered by most, largest first.
func (x *examination) sorted(is func(m *Member) bool, most func(m *Member) int64) (list []*Member) {
	for _, m := range x.members {
		if is(m) {
			list = append(list, m)
		}
	}
	slices.SortFunc(list,
		func(a, b *Member) int { return cmp.Or(cmp.Compare(most(b), most(a)), cmp.Compare(a.Name, b.Name)) })
	return list
}

// each adds a finding for each of the first listed recipients, and one finding for all others, whose text is rest and
// their number.
func (x *examination) each(list []*Member, listed int, rest, do string, most func(m *Member) int64,
	add func(m *Member) error) error {
	for i, m := range list {
		if i < listed {
			if err := add(m); err != nil {
				return err
			}
			continue
		}
		f := Finding{Level: x.check.now, Says: rest + " " + orchestrator.Plural(len(list)-i, "recipient"), Do: do}
		for _, m := range list[i:] {
			f.Count += most(m)
		}
		x.add(f)
		break
	}
	return nil
}

func pending(m *Member) int64 { return m.Pending }
func unread(m *Member) int64  { return m.Unread }

func isDisabled(m *Member) bool { return m.agent != nil && m.agent.Disabled != "" }

// checkDisabled finds recipients whose transport is disabled.
func checkDisabled(x *examination) error {
	return x.each(x.sorted(isDisabled, pending), mostOfEach, "Also disabled: the transports of", "To list them, run `mailroom agent list`",
		pending, func(m *Member) (err error) {
			at, why := m.agent.DisabledSince()
			f := Finding{
				About: m.Name, Level: Problem, Count: m.Pending, Says: "The transport of " + m.Name + " is disabled",
				Because: why, Since: at,
				Do: "To set another address and release the messages, run `mailroom agent add " + orchestrator.ShellWord(m.Name) +
					" --deliver ...`",
			}
			waits := " for another address"
			if strings.HasPrefix(f.Because, agents.ByHand) { // its address is not at fault
				f.Says, waits = m.Name+" is disabled", ""
				f.Do = "To release its messages, run `mailroom agent enable " + orchestrator.ShellWord(m.Name) + "`"
			}
			if m.Pending > 0 {
				f.Says += ", and " + plural(m.Pending, "message waits", "messages wait") + waits
			}
			f.From, f.ID, err = x.sendersTo(m.Name)
			x.add(f)
			return err
		})
}

// checkOverdue finds recipients whose messages have been undelivered for too long.
func checkOverdue(x *examination) error {
	late := x.sorted(func(m *Member) bool { return m.backlog.Overdue > 0 && !isDisabled(m) }, pending)
	return x.each(late, mostOfEach, "Overdue messages also wait for", "To list them, run `mailroom status`", pending, x.late)
}

// checkUser finds messages to the user that wait until a phone is paired, unless they are overdue already.
func checkUser(x *examination) error {
	m := x.members[orchestrator.User]
	if m == nil || m.backlog.Held == 0 || m.backlog.Overdue > 0 {
		return nil
	}
	f := Finding{About: m.Name, Level: Note, Count: m.backlog.Held, Says: "Messages to you wait for a phone",
		Because: "agents address the person who runs them as `user`, and no phone is paired", Since: m.backlog.OldestAt,
		Do: "To pair a phone, run `mailroom signal pair`"}
	senders, first, err := x.sendersTo(m.Name)
	f.From, f.ID = senders, first
	x.add(f)
	return err
}

// late adds a finding for a recipient whose messages have been undelivered for too long, with the reason for the
// oldest.
func (x *examination) late(m *Member) error {
	oldest, err := ledger.Messages(x.c, `SELECT `+ledger.MessageColumns+` FROM agent_message WHERE seq = ?1`,
		m.backlog.overdueSeq)
	if err != nil || len(oldest) == 0 {
		return err
	}
	since := ledger.DueSince(&oldest[0])
	reason, err := explain(x.c, x.l, x.conf, &oldest[0], len(x.daemons))
	if err != nil {
		return err
	}
	f := Finding{
		About: m.Name, Level: Problem, Unknown: !m.Known, Count: m.backlog.Overdue, Says: "Messages to " + m.Name +
			" are not delivered", Because: reason.Rule,
		Since: since, ID: oldest[0].ID, Do: reason.Fix,
	}
	if !m.Known {
		f.Says = fmt.Sprintf("No agent has the name %q", m.Name)
	}
	if rest := m.Pending - m.backlog.Overdue; rest > 0 {
		f.Says += ", and " + plural(rest, "more message waits", "more messages wait")
	}
	if reason.LastError != "" && !strings.Contains(f.Because, reason.LastError) {
		f.Because = firstLine(reason.LastError) + "; " + f.Because
	}
	f.From, _, err = x.sendersTo(m.Name)
	x.add(f)
	return err
}

// firstLine returns the first line of a transport's error.
func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// sendersTo returns the senders of the first undelivered messages to a recipient, and the ID of the first message.
func (x *examination) sendersTo(recipient string) (senders []string, first string, err error) {
	err = x.c.Query(`SELECT sender, message_id FROM agent_message WHERE `+ledger.Live+` AND recipient = ?1
		ORDER BY priority DESC, seq LIMIT +?2`, func(row store.Row) error {
		if first == "" {
			first = row.Text(1)
		}
		senders = append(senders, row.Text(0))
		return nil
	}, recipient, maxOldest)
	return byCount(senders), first, err
}

// byCount returns each name once, the most frequent first.
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

// checkUnread finds agents that do not read their messages, and unread messages for the operator, who is a person.
func checkUnread(x *examination) error {
	list := x.sorted(func(m *Member) bool {
		return m.Name == orchestrator.Operator && m.unreadAt != "" || m.Name != orchestrator.Operator &&
			!isDisabled(m) && x.unreadTooLong(m)
	}, unread)
	return x.each(list, mostOfEach, "Unread messages also wait for", "To list them, run `mailroom status`", unread,
		func(m *Member) error {
			f := Finding{
				About: m.Name, Level: Note, Unknown: m.agent == nil, Count: m.Unread, Says: m.Name + " does not read its messages",
				Because: x.whySilent(m), Since: m.unreadAt,
				Do: "To read them here, run `mailroom wait --recipient " + orchestrator.ShellWord(m.Name) + "`",
			}
			if m.Name == orchestrator.Operator {
				f.Says, f.Because = "Messages to you are unread", "agents address the person who runs Mailroom as `operator`"
			}
			var senders []string
			err := x.c.Query(`SELECT i.message_id, m.sender FROM agent_inbox i
			LEFT JOIN agent_message m ON m.message_id = i.message_id
			WHERE i.recipient = ?1 AND i.read_at = '' ORDER BY i.rowid LIMIT +?2`, func(row store.Row) error {
				f.ID = cmp.Or(f.ID, row.Text(0))
				if sender := row.Text(1); sender != "" {
					senders = append(senders, sender)
				}
				return nil
			}, m.Name, maxOldest)
			f.From = byCount(senders)
			x.add(f)
			return err
		})
}

// noHooks is how long an agent with unread messages may go without a hook call.
const noHooks = time.Hour

// whySilent returns when an agent was last heard from, and what would start it.
func (x *examination) whySilent(m *Member) string {
	says := "Mailroom has not heard from the agent yet"
	if m.HeardAt != "" {
		says = "Mailroom last heard from the agent at " + m.HeardAt
	}
	if m.readAt != "" && m.readAt < m.HeardAt {
		says += ", and it last read a message at about " + m.readAt
	}
	switch {
	case m.agent == nil:
		return "no agent has that name anymore"
	case m.hookAt != "" && x.now.Sub(orchestrator.ParseStamp(m.hookAt)) > noHooks:
		says += "; its host has not called a hook since " + m.hookAt +
			". Start a session, and check that its hooks are turned on"
	case m.agent.StartCommand == "":
		says += "; it has no start command, so Mailroom does not start it"
	case len(x.daemons) == 0:
		says += "; no daemon runs to start it"
	case m.runIs(sessions.Running):
		says += "; its session is running"
	default:
		says += "; to see how its last session ended, run `mailroom agent show " + orchestrator.ShellWord(m.Name) + "`"
	}
	return says
}

// checkQuestions finds the questions that a person can still answer, and quotes the oldest of them.
func checkQuestions(x *examination) error {
	open, total, err := questions.OpenIn(x.c, x.now)
	if err != nil || len(open) == 0 {
		return err
	}
	slices.SortStableFunc(open, func(a, b questions.Question) int { return cmp.Compare(a.CreatedAt, b.CreatedAt) })
	first := &open[0]
	var words struct {
		Question string `json:"question"`
	}
	f := Finding{
		About: first.Asker, Level: Note, Count: total, Since: first.CreatedAt, ID: first.ID,
		Because: "the question is open until " + first.ExpiresAt,
		Says:    first.Asker + " asks a question that only a paired device can read", Do: "Answer it on a paired device",
	}
	if !first.Encrypted && json.Unmarshal([]byte(first.Body), &words) == nil {
		f.Says = first.Asker + " asks: " + firstLine(words.Question)
	}
	var others []string
	for _, q := range open[1:] {
		others = append(others, q.Asker)
	}
	f.From = byCount(others)
	x.add(f)
	return nil
}
