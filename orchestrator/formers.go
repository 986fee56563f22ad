package orchestrator

import (
	"context"
	"math"
	"strconv"
	"strings"
)

// formerPrefix stands before the name of an agent in the key of the row of settings that tells its mail from that of the agent
// which had the name before: the seq of the newest message of that time. Only a name that was removed and added again has one.
const formerPrefix = "former."

// noteFormer notes that the messages that there are now are not of the agent which is about to get a name, but of a removed one.
func (t *tx) noteFormer(name string) error {
	newest, err := t.newest()
	if err != nil {
		return err
	}
	return t.storeSetting(formerPrefix+name, strconv.FormatInt(newest, 10))
}

// formersIn reads what noteFormer noted, by name.
func formersIn(stored map[string]string) map[string]int64 {
	formers := map[string]int64{}
	for key, value := range stored {
		if name, ok := strings.CutPrefix(key, formerPrefix); ok {
			formers[name], _ = strconv.ParseInt(value, 10, 64) // 0 for what somebody wrote by hand: it tells nothing
		}
	}
	return formers
}

// former is the seq up to which messages are of a removed agent that had a name before.
func (conf *config) former(agent string) int64 {
	if seq, again := conf.formers[agent]; again {
		return seq
	}
	return math.MinInt64
}

// since is when an agent was added, if another had its name before; otherwise "", which is before all times.
func (conf *config) since(agent string) string {
	if _, again := conf.formers[agent]; !again || conf.agents[agent] == nil {
		return ""
	}
	return conf.agents[agent].CreatedAt
}

// CheckSuccession refuses a program that acts for an agent, and was started when since was the time at which that was added, if
// another agent has the name now. Error: permission_denied.
func (r *Router) CheckSuccession(ctx context.Context, agent, since string) error {
	if since == "" {
		return nil
	}
	return r.read(ctx, func(c *Conn) error {
		conf, err := r.config.load(c)
		if err == nil && conf.since(agent) > since {
			err = Errorf(PermissionDenied, "this program was started for an agent %s that was removed; another has its name", agent)
		}
		return err
	})
}

// isLater reports whether a message was sent when no removed agent had the name any more. One of which only the trace is left has
// no seq.
func (conf *config) isLater(m *Message, agent string) bool {
	if m.seq == 0 {
		return m.CreatedAt >= conf.since(agent)
	}
	return m.seq > conf.former(agent)
}

// sent reports whether an agent has sent a message, and not a removed one that had its name.
func (conf *config) sent(m *Message, agent string) bool {
	return m.Sender == agent && conf.isLater(m, agent)
}

// got reports whether a message is to an agent, and not to a removed one that had its name. What waited for the name when it was
// added again, and what was replayed since, is the agent's.
func (conf *config) got(m *Message, agent string) bool {
	return m.Recipient == agent && (conf.isLater(m, agent) || m.seq != 0 && (m.EndedAt == "" || m.EndedAt > conf.since(agent)))
}

// owns reports whether an agent has sent or got a message.
func (conf *config) owns(m *Message, agent string) bool {
	return conf.sent(m, agent) || conf.got(m, agent)
}

// newest is the largest number that is believed of all messages that there are; 0 when there is none.
func (c *Conn) newest() (int64, error) {
	return c.number(`SELECT coalesce(max(seq), 0) FROM (SELECT max(seq) AS seq FROM agent_message WHERE seq <= ?1
		UNION ALL SELECT max(seq) FROM agent_message_archive WHERE seq <= ?1) AS n`, MaxNumber)
}
