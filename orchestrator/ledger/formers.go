package ledger

import (
	"context"
	"math"
	"strconv"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// formerPrefix and the name of an agent form the key of a setting. Its value is the seq of the newest message at the
// time when the name was given to another agent, and separates the mail of the two agents. Only a name that was
// removed and added again has such a setting.
const formerPrefix = "former."

// NoteFormer records that an agent is about to get the name of a removed agent, so that all present messages belong
// to the removed one. It first renumbers messages whose seq is out of range, because not all databases continue from
// such numbers.
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

// formersIn returns the values that NoteFormer stored, by name.
func formersIn(stored map[string]string) map[string]int64 {
	formers := map[string]int64{}
	for key, value := range stored {
		if name, ok := strings.CutPrefix(key, formerPrefix); ok {
			formers[name], _ = strconv.ParseInt(value, 10, 64) // 0 if the value was written by hand and is not a number
		}
	}
	return formers
}

// Former returns the seq up to which messages belong to a removed agent that had the same name. It returns the
// smallest int64 if no removed agent had the name.
func (conf *Config) Former(agent string) int64 {
	if seq, again := conf.formers[agent]; again {
		return seq
	}
	return math.MinInt64
}

// Since returns the time at which an agent was added, if a removed agent had its name before. Otherwise it returns
// "", which sorts before all times.
func (conf *Config) Since(agent string) string {
	if _, again := conf.formers[agent]; !again || conf.Agents[agent] == nil {
		return ""
	}
	return conf.Agents[agent].CreatedAt
}

// CheckSuccession refuses a program that acts for an agent if that agent was removed and another agent has its name
// now. since is the time at which the program's own agent was added. Error: permission_denied.
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

// isLater reports whether a message was sent after the removal of the last former agent with the name. A message with
// seq 0 survives only in the trace; its creation time is compared instead.
func (conf *Config) isLater(m *orchestrator.Message, agent string) bool {
	if m.Seq == 0 {
		return m.CreatedAt >= conf.Since(agent)
	}
	return m.Seq > conf.Former(agent)
}

// Sent reports whether an agent sent a message. Messages of a removed agent with the same name do not count.
func (conf *Config) Sent(m *orchestrator.Message, agent string) bool {
	return m.Sender == agent && conf.isLater(m, agent)
}

// Got reports whether a message is addressed to an agent and not to a removed agent that had its name. Messages that
// were waiting for the name when it was added again, and messages replayed since, belong to the new agent.
func (conf *Config) Got(m *orchestrator.Message, agent string) bool {
	return m.Recipient == agent &&
		(conf.isLater(m, agent) || m.Seq != 0 && (m.EndedAt == "" || m.EndedAt > conf.Since(agent)))
}

// GotAs returns the SQL condition by which a row addressed to an agent belongs to that agent, with the rules of
// Config.Got. former and since name the parameters of the statement that hold Config.Former and Config.Since of the
// agent.
func GotAs(former, since string) string {
	return `(+seq > ` + former + ` OR +ended_at = '' OR +ended_at > ` + since + `)`
}

// Owns reports whether an agent has sent or received a message.
func (conf *Config) Owns(m *orchestrator.Message, agent string) bool {
	return conf.Sent(m, agent) || conf.Got(m, agent)
}

// newest returns the largest seq of all messages, including archived ones, or 0 if there are no messages.
func newest(c *store.Conn) (int64, error) {
	return c.Number(`SELECT coalesce(max(seq), 0) FROM (SELECT max(seq) AS seq FROM agent_message
		UNION ALL SELECT max(seq) FROM agent_message_archive) AS n`)
}
