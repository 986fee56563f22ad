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

// An agent whose address is gone for good is disabled, and so is one that somebody disables by hand: its transport is
// not used any more, until `agent enable`, or until `agent add --deliver` names one. Its messages go to its fallback.
// Without one they wait as they are: none is lost, none climbs the ladder in vain, and no delivery run is made for
// them. So do those to an inbox, whose fallback is only for what it refuses. An agent that comes to read by itself gets
// them.

// keptBack is the condition for agents whose messages wait because their transport is disabled, as ledger.Agent.Waits
// has it.
const keptBack = `disabled <> '' AND (fallback = '' OR deliver = 'inbox' OR deliver LIKE 'inbox:%')`

// goesSomewhere is the condition for rows that a delivery run can do something about: their recipient is no agent that
// waits.
const goesSomewhere = `recipient NOT IN (SELECT name FROM agents WHERE ` + keptBack + ` AND name IS NOT NULL)`

// goesHere stands in place of goesSomewhere where some agents get their messages on other hosts than ?1, and the user
// on ?2 unless that is empty. It leaves out a few of others, too, for which the other host wakes up.
const goesHere = `recipient NOT IN (SELECT name FROM agents
	WHERE (` + keptBack + ` OR host <> '' AND host <> ?1 AND deliver <> 'inbox') AND name IS NOT NULL)
	AND (recipient <> '` + orchestrator.User + `' OR ?2 IN ('', ?1))`

// staysInside stands in place of goesSomewhere in a database that is not trusted, where only inboxes are delivered to,
// and no transport is asked what became of a message that carries its mark. The plus keeps SQLite at the index of what
// is due, which has the first time at its beginning: by recipient it would read all that waits.
const staysInside = `delivery_marks = '' AND +recipient IN (SELECT name FROM agents WHERE deliver = 'inbox' OR deliver LIKE 'inbox:%')`

// disableGone disables the transport of an agent that said in an attempt that its address is gone, unless it has got
// another one meanwhile, and tells the administrators. It returns the agent's name when it did.
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

// tellAdministrators sends a note of the engine's own to every agent that has a valid administrator's token. Whoever
// works on the command line or in the console sees the same in `status`, `agent list` and `doctor`.
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

// useFallback hands the messages of a disabled agent to its fallback.
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

// ReleaseToReader makes messages due now that a recipient's transport put off, because the recipient has come to read
// itself.
func ReleaseToReader(t *ledger.Tx, recipient string) error {
	conf := t.Config()
	if agent := conf.Agents[recipient]; agent == nil || t.Ledger.SetTransport(agent) != nil {
		return nil // nothing is
	}
	return agents.ReleasePutOff(t, recipient, "the agent reads its messages directly")
}

// KeptFrom reports whether ReleaseToReader would make anything due.
func KeptFrom(c *store.Conn, agent *ledger.Agent) (bool, error) {
	n, err := c.Number(`SELECT EXISTS (SELECT 1 FROM agent_message WHERE `+ledger.PutOff+
		` AND lease_token = '' AND recipient = ?1)`, agent.Name)
	return n != 0, err
}
