package ledger

import (
	"context"
	"math"
	"strconv"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// formerPrefix stands before the name of an agent in the key of the row of settings that tells its mail from that of
// the agent which had the name before: the seq of the newest message of that time. Only a name that was removed and
// added again has one.
const formerPrefix = "former."

// NoteFormer notes that an agent is about to get a name that a removed agent had, so that all messages there are now
// belong to the former one. Numbers that are out of range are given anew first: not all databases go on from them.
func (t *Tx) NoteFormer(name string) error {
	err := t.Driver.RenumberMessages()
	if err != nil {
		return err
	}
	newest, err := newest(t.Conn)
	if err != nil {
		return err
	}
	return t.StoreSetting(formerPrefix+name, strconv.FormatInt(newest, 10))
}

// formersIn reads what NoteFormer noted, by name.
func formersIn(stored map[string]string) map[string]int64 {
	formers := map[string]int64{}
	for key, value := range stored {
		if name, ok := strings.CutPrefix(key, formerPrefix); ok {
			formers[name], _ = strconv.ParseInt(value, 10, 64) // 0 for what somebody wrote by hand: it tells nothing
		}
	}
	return formers
}

// Former is the seq up to which messages are of a removed agent that had a name before.
func (conf *Config) Former(agent string) int64 {
	if seq, again := conf.formers[agent]; again {
		return seq
	}
	return math.MinInt64
}

// Since is when an agent was added, if another had its name before; otherwise "", which is before all times.
func (conf *Config) Since(agent string) string {
	if _, again := conf.formers[agent]; !again || conf.Agents[agent] == nil {
		return ""
	}
	return conf.Agents[agent].CreatedAt
}

// CheckSuccession refuses a program that acts for an agent if that agent was removed since, and another one has its
// name: since is when the program's own agent was added. Error: permission_denied.
func (l *Ledger) CheckSuccession(ctx context.Context, agent, since string) error {
	if since == "" {
		return nil
	}
	conf, err := l.Configuration(ctx)
	if err == nil && conf.Since(agent) > since {
		err = orchestrator.Errorf(orchestrator.PermissionDenied,
			"this program was started for a removed agent named %s; a different agent now has that name", agent)
	}
	return err
}

// isLater reports whether a message was sent when no removed agent had the name any more. One of which only the trace
// is left has no seq.
func (conf *Config) isLater(m *orchestrator.Message, agent string) bool {
	if m.Seq == 0 {
		return m.CreatedAt >= conf.Since(agent)
	}
	return m.Seq > conf.Former(agent)
}

// Sent reports whether an agent has sent a message, and not a removed one that had its name.
func (conf *Config) Sent(m *orchestrator.Message, agent string) bool {
	return m.Sender == agent && conf.isLater(m, agent)
}

// Got reports whether a message is to an agent, and not to a removed one that had its name. What waited for the name
// when it was added again, and what was replayed since, is the agent's.
func (conf *Config) Got(m *orchestrator.Message, agent string) bool {
	return m.Recipient == agent &&
		(conf.isLater(m, agent) || m.Seq != 0 && (m.EndedAt == "" || m.EndedAt > conf.Since(agent)))
}

// GotAs is the condition under which a row to an agent is the agent's own, as Got says. former and since are the
// parameters of a statement that hold Config.Former and Config.Since of the agent.
func GotAs(former, since string) string {
	return `(+seq > ` + former + ` OR +ended_at = '' OR +ended_at > ` + since + `)`
}

// Owns reports whether an agent has sent or got a message.
func (conf *Config) Owns(m *orchestrator.Message, agent string) bool {
	return conf.Sent(m, agent) || conf.Got(m, agent)
}

// newest is the largest number of all messages that there are; 0 when there is none.
func newest(c *store.Conn) (int64, error) {
	return c.Number(`SELECT coalesce(max(seq), 0) FROM (SELECT max(seq) AS seq FROM agent_message
		UNION ALL SELECT max(seq) FROM agent_message_archive) AS n`)
}
