package delivery

import (
	"context"
	"encoding/json"
	"fmt"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// An agent is disabled when its address is gone for good, or by hand. Its transport is then unused until `agent
// enable`, or until `agent add --deliver` names a transport. Its messages go to its fallback. Without a fallback they
// wait unchanged: none is lost, no retries are spent, and no delivery run is made for them. The same holds for
// messages to an inbox, whose fallback takes only messages that the inbox refuses. An agent that reads its messages
// itself gets them.

// keptBack is the condition for agents whose messages wait because their transport is disabled. It corresponds to
// ledger.Agent.KeptBack.
const keptBack = `disabled <> '' AND (fallback = '' OR deliver = 'inbox' OR deliver LIKE 'inbox:%')`

// goesSomewhere is the condition for rows that a delivery run can deliver: rows whose recipient is not a waiting
// agent.
const goesSomewhere = `recipient NOT IN (SELECT name FROM agents WHERE ` + keptBack + ` AND name IS NOT NULL)`

// goesHere replaces goesSomewhere if some agents get their messages on hosts other than ?1, or the user on host ?2
// unless ?2 is empty. It also excludes a few other rows, for which the other host wakes up.
const goesHere = `recipient NOT IN (SELECT name FROM agents
	WHERE (` + keptBack + ` OR host <> '' AND host <> ?1 AND deliver <> 'inbox') AND name IS NOT NULL)
	AND (recipient <> '` + orchestrator.User + `' OR ?2 IN ('', ?1))`

// staysInside replaces goesSomewhere in a database that is not trusted. There only inboxes receive deliveries, and no
// transport is asked about messages with its mark. The plus makes SQLite use the index of due times, whose first
// entry is the earliest time; an index by recipient would read all waiting rows.
const staysInside = `delivery_marks = '' AND +recipient IN (SELECT name FROM agents WHERE deliver = 'inbox' OR deliver LIKE 'inbox:%')`

// disableGone disables the transport of an agent if an attempt found its address gone, unless the agent has got
// another one meanwhile, and notifies the administrators. It returns the agent's name if it disabled the transport.
func disableGone(t *ledger.Tx, c *claim, outcomes []outcome) (disabled string, err error) {
	reason := ""
	for i := range outcomes {
		if outcomes[i].gone {
			reason = outcomes[i].reason
		}
	}
	if reason == "" {
		return "", nil
	}
	conf := t.Config()
	agent := conf.Agents[c.agent.Name]
	if agent == nil || agent.Deliver != c.agent.Deliver || agent.Disabled != "" {
		return "", nil
	}
	a := *agent
	a.Disabled, a.UpdatedAt = t.Now+" "+reason, t.Now
	if err := agents.Store(t, &a); err != nil {
		return "", err
	}
	if err := t.ConfigChanged(); err != nil {
		return "", err
	}
	t.AfterCommit(func() {
		t.Ledger.Log.Error("the transport of an agent is disabled; messages to the agent wait until you set another transport",
			"agent", a.Name, "transport", a.Deliver, "reason", reason, "do",
			"mailroom agent add "+a.Name+" --deliver ...")
	})
	payload, err := json.Marshal(map[string]any{
		"message": fmt.Sprintf("the transport of %s is disabled: %s. Messages to the agent are waiting. To set another transport, run `mailroom agent add %s --deliver ...`",
			a.Name, reason, a.Name),
		"payload": map[string]any{"agent": a.Name, "deliver": a.Deliver, "reason": reason},
	})
	if err != nil {
		return "", err
	}
	return a.Name, tellAdministrators(t, "transport_disabled", payload)
}

// tellAdministrators sends a message from the engine to every agent that has a valid administrator's token. On the
// command line and in the console, `status`, `agent list` and `doctor` show the same information.
func tellAdministrators(t *ledger.Tx, kind string, payload json.RawMessage) error {
	names, err := t.Texts(`SELECT DISTINCT agent FROM tokens WHERE admin = 1 AND revoked_at = ''
		AND (expires_at = '' OR expires_at > ?)
		ORDER BY agent`, t.Now)
	if err != nil {
		return err
	}
	for _, name := range names {
		if orchestrator.IsBuiltIn(name) { // a session of the console
			continue
		}
		if err := t.Tell(&orchestrator.Draft{Recipient: name, Type: kind, Payload: payload,
			Priority: orchestrator.PriorityOf("urgent")}); err != nil {
			return err
		}
	}
	return nil
}

// useFallback delivers the messages of a disabled agent through its fallback. Without a fallback it gives them back.
func useFallback(ctx context.Context, l *ledger.Ledger, c *claim) []outcome {
	if c.agent.Fallback == "" {
		return allOutcomes(c, outcome{givenBack: true, reason: "the agent's transport was disabled in the meantime"})
	}
	outcomes := tryTarget(ctx, l, c, c.agent.Fallback)
	for i := range outcomes {
		if outcomes[i].delivered {
			outcomes[i].fallback = c.agent.Fallback
		}
	}
	return outcomes
}

// ReleaseToReader makes messages due now that a recipient's transport postponed, because the recipient now reads its
// messages itself.
func ReleaseToReader(t *ledger.Tx, recipient string) error {
	conf := t.Config()
	if agent := conf.Agents[recipient]; agent == nil || t.Ledger.SetTransport(agent) != nil {
		return nil // an inbox postpones nothing
	}
	return agents.ReleasePutOff(t, recipient, "the agent reads its messages directly")
}

// KeptFrom reports whether ReleaseToReader would make any message due.
func KeptFrom(c *store.Conn, agent *ledger.Agent) (bool, error) {
	n, err := c.Number(`SELECT EXISTS (SELECT 1 FROM agent_message WHERE `+ledger.PutOff+
		` AND lease_token = '' AND recipient = ?1)`, agent.Name)
	return n != 0, err
}
