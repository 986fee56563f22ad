package overview

import (
	"cmp"
	"slices"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/push"
	"mailroom/orchestrator/questions"
	"mailroom/orchestrator/store"
)

// mostLetters is how many dead letters are looked at, the newest.
const mostLetters = 2000

// deadLetter is a dead letter, as little of it as a snapshot needs.
type deadLetter struct {
	seq                                           int64
	id, sender, recipient, status, at, ended, err string
}

// deadLetterGroup is dead letters to one recipient that failed alike.
type deadLetterGroup struct {
	recipient string
	letters   []deadLetter // oldest first
}

// failed tells of dead letters, those that failed alike together, and behind the newest of those that are not looked at.
func (n *needs) failed() error {
	groups := n.groupLetters()
	groups = groups[:min(len(groups), mostNeeds)]
	left := map[string]int64{}
	for name, m := range n.members {
		left[name] = m.Failed
	}
	for _, g := range groups {
		left[g.recipient] -= int64(len(g.letters))
		n.addFailed(&g)
	}
	others := n.sorted(func(m *Member) bool { return left[m.Name] > 0 }, func(m *Member) int64 { return left[m.Name] })
	for i, m := range others {
		if i == mostNeeds-len(groups) {
			n.fold("failed", "have dead letters, too", "`mailroom dead_letters list` shows them", others[i:], func(m *Member) int64 { return left[m.Name] })
			break
		}
		n.add(Need{Kind: "failed", Agent: m.Name, Unknown: m.agent == nil, Count: left[m.Name], Says: "Messages to " + m.Name + " failed or expired", Because: "some time ago; `mailroom dead_letters list --recipient " + orchestrator.ShellWord(m.Name) + "` lists them",
			Do: "Remove the cause, then `mailroom dead_letters replay --all --recipient " + orchestrator.ShellWord(m.Name) + "`"})
	}
	return nil
}

// phones tells of devices that cannot be pushed to, and of those to which the last push failed, where pushes were given up. What they
// were to tell of waits in the app, and is not to be sent again.
func (n *needs) phones() error {
	devices, err := questions.DevicesIn(n.c)
	for _, d := range devices {
		since, why, _ := strings.Cut(d.PushProblem, " ")
		failed := n.pushes[push.DevicePrefix+d.ID]
		if why == "" && failed > 0 && d.PushOutcome != "delivered" {
			since, why = d.PushedAt, d.PushOutcome
		}
		if d.State == questions.DeviceActive && why != "" {
			n.add(Need{Kind: "phone", Count: failed, Says: d.Name + " is not told of questions and alerts", Because: firstLine(why), Since: since,
				Do: "`mailroom signal doctor` says what is missing"})
		}
	}
	return err
}

// addFailed adds what dead letters that failed alike need.
func (n *needs) addFailed(g *deadLetterGroup) {
	newest, m := &g.letters[len(g.letters)-1], n.of(g.recipient)
	need := Need{Kind: "failed", Agent: g.recipient, Unknown: m.agent == nil, Count: int64(len(g.letters)), Error: messages.Reason(newest.err), Because: firstLine(newest.err), Since: g.letters[0].ended, ID: g.letters[0].id,
		Do: "Remove the cause, then `mailroom dead_letters replay --all --recipient " + orchestrator.ShellWord(g.recipient) + "`"}
	scheme := ""
	if m.agent != nil {
		scheme, _, _ = strings.Cut(m.agent.Deliver, ":")
	}
	letter := orchestrator.Message{ID: newest.id, Sender: newest.sender, Recipient: newest.recipient, Error: newest.err}
	switch {
	case messages.LacksSender(n.conf, &letter):
		need.Says = "Nobody has the name " + newest.sender + ", which wrote to " + g.recipient
		need.Do = orchestrator.AddIt(newest.sender) + ", then `mailroom dead_letters replay --all --sender " + orchestrator.ShellWord(newest.sender) + "`"
	case m.agent == nil && orchestrator.CanBeAgent(g.recipient):
		need.Says = "Nobody has the name " + g.recipient
		need.Do = orchestrator.AddIt(g.recipient) + ", then `mailroom dead_letters replay --all --recipient " + orchestrator.ShellWord(g.recipient) + "`"
	case m.agent == nil:
		need.Says = "No agent can have the name " + g.recipient
		need.Do = orchestrator.NoAgentsName + ": send it again to another, if it is still wanted"
	case newest.status == string(orchestrator.Lapsed):
		need.Says = "Messages to " + g.recipient + " expired"
	case scheme == "exec":
		need.Says = "The command of " + g.recipient + " fails"
	case scheme == "webhook":
		need.Says = "The webhook of " + g.recipient + " fails"
	default:
		need.Says = "Messages to " + g.recipient + " failed"
	}
	if m.Pending > 0 && m.agent != nil {
		need.Says += ", and " + plural(m.Pending, "more message is on its way", "more messages are on their way") + " to it"
	}
	var senders []string
	for i := range g.letters {
		senders = append(senders, g.letters[i].sender)
	}
	need.From = byCount(senders)
	n.add(need)
}

// findLetters finds the newest dead letters that are no pushes. How many there are is counted; what they say is looked up for these only.
func (s *snapshot) findLetters() error {
	newest, err := store.List(s.c, func(row store.Row) deadLetter {
		return deadLetter{row.Int(0), row.Text(1), row.Text(2), row.Text(3), row.Text(4), row.Text(5), row.Text(6), row.Text(7)}
	}, `SELECT seq, message_id, sender, recipient, status, created_at, ended_at, error_message FROM agent_message INDEXED BY agent_message_dead
		WHERE status IN ('failed','expired') AND recipient NOT LIKE '`+push.DevicePrefix+`%' AND message_type IS NOT '`+orchestrator.TestMessage+`' ORDER BY seq DESC LIMIT +?1`, mostLetters)
	s.letters = newest
	for _, w := range newest {
		if m := s.members[w.recipient]; m != nil && w.ended >= orchestrator.Stamp(s.now.Add(-roomTime)) {
			m.failedAt = max(m.failedAt, w.ended)
		}
	}
	return err
}

// groupLetters returns the dead letters that were found, those with errors that are alike together, the largest groups first.
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
		slices.SortFunc(g.letters, func(a, b deadLetter) int { return cmp.Or(cmp.Compare(a.ended, b.ended), cmp.Compare(a.seq, b.seq)) })
		list = append(list, *g)
	}
	slices.SortFunc(list, func(a, b deadLetterGroup) int {
		return cmp.Or(cmp.Compare(len(b.letters), len(a.letters)), cmp.Compare(a.letters[0].seq, b.letters[0].seq))
	})
	return list
}
