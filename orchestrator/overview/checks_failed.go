package overview

import (
	"cmp"
	"slices"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/push"
	"mailroom/orchestrator/questions"
	"mailroom/orchestrator/store"
)

// mostLetters is how many dead letters are examined, newest first.
const mostLetters = 2000

// deadLetter holds the columns of a dead letter that a snapshot needs.
type deadLetter struct {
	seq                                           int64
	id, sender, recipient, status, at, ended, err string
}

// deadLetterGroup holds dead letters to one recipient that failed with similar errors.
type deadLetterGroup struct {
	recipient string
	letters   []deadLetter // oldest first
}

// checkFailed finds dead letters. It groups those that failed with similar errors, then counts by recipient the older
// ones that were not examined.
func checkFailed(x *examination) error {
	groups := x.groupLetters()
	groups = groups[:min(len(groups), mostOfEach)]
	left := map[string]int64{}
	for name, m := range x.members {
		left[name] = m.Failed
	}
	for _, g := range groups {
		left[g.recipient] -= int64(len(g.letters))
		x.addFailed(&g)
	}
	many := func(m *Member) int64 { return left[m.Name] }
	others := x.sorted(func(m *Member) bool { return left[m.Name] > 0 }, many)
	return x.each(others, mostOfEach-len(groups), "More dead letters are addressed to", "To list them, run `mailroom dead_letters list`",
		many, func(m *Member) error {
			with := "--recipient " + orchestrator.ShellWord(m.Name)
			x.add(Finding{
				About: m.Name, Level: Note, Unknown: m.agent == nil, Count: left[m.Name],
				Says: "Messages to " + m.Name +
					" failed or expired",
				Because: "to list them, run `mailroom dead_letters list " + with + "`",
				Do:      "Remove the cause, then run `mailroom dead_letters replay --all " + with + "`",
			})
			return nil
		})
}

// checkPhones finds devices that cannot receive pushes, and devices whose last push failed and was given up. The
// content of these pushes waits in the app, so nothing has to be sent again.
func checkPhones(x *examination) error {
	devices, err := questions.DevicesIn(x.c)
	for _, d := range devices {
		since, why, _ := strings.Cut(d.PushProblem, " ")
		failed := x.pushes[push.DevicePrefix+d.ID]
		if why == "" && failed > 0 && d.PushOutcome != "delivered" {
			since, why = d.PushedAt, d.PushOutcome
		}
		if d.State == questions.DeviceActive && why != "" {
			x.add(Finding{
				About: d.ID, Level: Note, Count: failed, Says: d.Name + " does not get notifications of questions and alerts",
				Because: firstLine(why), Since: since,
				Do: "To see what is missing, run `mailroom signal doctor`",
			})
		}
	}
	return err
}

// addFailed adds a finding for dead letters that failed with similar errors.
func (x *examination) addFailed(g *deadLetterGroup) {
	newest, m := &g.letters[len(g.letters)-1], x.of(g.recipient)
	f := Finding{
		About: g.recipient, Level: Note, Unknown: m.agent == nil, Count: int64(len(g.letters)),
		Error:   messages.Reason(newest.err),
		Because: firstLine(newest.err), Since: g.letters[0].ended, ID: g.letters[0].id,
		Do: "Remove the cause, then run `mailroom dead_letters replay --all --recipient " +
			orchestrator.ShellWord(g.recipient) + "`",
	}
	scheme := ""
	if m.agent != nil {
		scheme, _, _ = strings.Cut(m.agent.Deliver, ":")
	}
	letter := orchestrator.Message{ID: newest.id, Sender: newest.sender, Recipient: newest.recipient, Error: newest.err}
	switch {
	case messages.LacksSender(x.conf, &letter) && !orchestrator.CanBeAgent(newest.sender):
		f.Says = "The sender of messages to " + g.recipient + " is " + newest.sender + ", a name that no agent can have"
		f.Do = "If the message is still needed, send it again as another agent"
	case messages.LacksSender(x.conf, &letter):
		f.Says = "The sender of messages to " + g.recipient + " is unknown: " + newest.sender
		f.Do = orchestrator.AddIt(newest.sender) + ". Then run `mailroom dead_letters replay --all --sender " +
			orchestrator.ShellWord(newest.sender) + "`"
	case m.agent == nil && x.conf.Groups[g.recipient] != nil:
		f.Says = "Messages to " + g.recipient + " were sent before the group existed"
		f.Do = sendToGroup
	case m.agent == nil && orchestrator.CanBeAgent(g.recipient):
		f.Says = "No agent has the name " + g.recipient
		f.Do = orchestrator.MeantOrAdd(g.recipient, x.conf.Names) + ". Then run `mailroom dead_letters replay --all --recipient " +
			orchestrator.ShellWord(g.recipient) + "`"
	case m.agent == nil:
		f.Says = "No agent can have the name " + g.recipient
		f.Do = orchestrator.NoAgentsName + ". If the message is still needed, send it again to another agent"
	case newest.status == string(orchestrator.Expired):
		f.Says = "Messages to " + g.recipient + " expired"
	case scheme == "exec":
		f.Says = "The command for " + g.recipient + " fails"
	case scheme == "webhook":
		f.Says = "The webhook for " + g.recipient + " fails"
	default:
		f.Says = "Messages to " + g.recipient + " failed"
	}
	if m.Pending > 0 && m.agent != nil {
		f.Says += ", and " + plural(m.Pending, "more message is waiting", "more messages are waiting")
	}
	var senders []string
	for i := range g.letters {
		senders = append(senders, g.letters[i].sender)
	}
	f.From = byCount(senders)
	x.add(f)
}

// findLetters finds the newest dead letters, without pushes and test messages. All dead letters are counted, but
// contents are read only for these.
func (s *snapshot) findLetters() error {
	newest, err := store.List(s.c, func(row store.Row) deadLetter {
		return deadLetter{row.Int(0), row.Text(1), row.Text(2), row.Text(3), row.Text(4), row.Text(5), row.Text(6),
			row.Text(7)}
	}, `SELECT seq, message_id, sender, recipient, status, created_at, ended_at, error_message
		FROM agent_message INDEXED BY agent_message_dead
		WHERE status IN ('failed','expired') AND recipient NOT LIKE '`+push.DevicePrefix+`%'
			AND message_type IS DISTINCT FROM '`+orchestrator.TestMessage+`' ORDER BY seq DESC LIMIT +?1`, mostLetters)
	s.letters = newest
	for _, w := range newest {
		if ledger.LackedSender(w.err) {
			continue // this error is not about the recipient
		}
		if m := s.members[w.recipient]; m != nil && w.ended >= orchestrator.Stamp(s.now.Add(-roomTime)) {
			m.failedAt = max(m.failedAt, w.ended)
		}
	}
	return err
}

// groupLetters groups the dead letters that were found by recipient and similar error, and returns the largest groups
// first.
func (s *snapshot) groupLetters() []deadLetterGroup {
	groups := map[[2]string]*deadLetterGroup{}
	for _, w := range s.letters {
		key := [2]string{w.recipient, messages.Alike(w.err)}
		if groups[key] == nil {
			groups[key] = &deadLetterGroup{recipient: w.recipient}
		}
		groups[key].letters = append(groups[key].letters, w)
	}
	list := make([]deadLetterGroup, 0, len(groups))
	for _, g := range groups {
		slices.SortFunc(g.letters,
			func(a, b deadLetter) int { return cmp.Or(cmp.Compare(a.ended, b.ended), cmp.Compare(a.seq, b.seq)) })
		list = append(list, *g)
	}
	slices.SortFunc(list, func(a, b deadLetterGroup) int {
		return cmp.Or(cmp.Compare(len(b.letters), len(a.letters)), cmp.Compare(a.letters[0].seq, b.letters[0].seq))
	})
	return list
}
