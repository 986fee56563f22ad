package teams

import (
	"context"
	"encoding/json"
	"slices"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/store"
)

// IdleNotice returns the message that reports that an agent's turn in a session has ended, and the reason if it is
// not empty. EndTurn sets the recipient.
func IdleNotice(agent, session, reason string) (orchestrator.Draft, error) {
	body := struct {
		Type   string          `json:"type"`
		From   string          `json:"from"`
		Reason json.RawMessage `json:"reason,omitempty"`
	}{Type: orchestrator.IdleNotification, From: agent}
	if reason != "" {
		body.Reason = orchestrator.JSONString(reason)
	}
	payload, err := json.Marshal(body)
	return orchestrator.Draft{Sender: agent, Type: orchestrator.IdleNotification, Payload: payload, SessionID: session},
		err
}

// TurnEnded is the result of EndTurn.
type TurnEnded struct {
	Presence agents.Presence
	Lead     string            // who is notified; "" if there is nobody but the agent itself
	Notice   orchestrator.Sent // zero if nobody was notified: no lead, or the agent was idle or stopped before
}

// EndTurn records that an agent's turn in a session has ended, so that the agent is idle, and sends the notice to
// the team's lead, in one transaction. If the agent is already idle or has stopped, its status stays and nobody is
// notified: there is one notice for each turn. lead is the agent to notify; "" is the lead of the team. The
// notice's SessionID and Sender identify the turn; EndTurn sets its Recipient. Errors: those of agents.Join;
// unknown_recipient for the lead.
func EndTurn(ctx context.Context, l *ledger.Ledger, lead string, notice orchestrator.Draft) (ended TurnEnded,
	err error) {
	if notice, err = checkFromTeam(notice); err != nil {
		return ended, err
	}
	if lead != "" {
		if lead, err = orchestrator.CheckName("lead", lead); err != nil {
			return ended, err
		}
	}
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) (err error) {
		ended, err = endTurn(t, lead, notice)
		return err
	})
	return ended, err
}

func endTurn(t *ledger.Tx, lead string, notice orchestrator.Draft) (ended TurnEnded, err error) {
	conf, err := agents.Acting(t, notice.Sender)
	if err != nil {
		return ended, err
	}
	if orchestrator.IsBuiltIn(notice.Sender) {
		return ended, agents.NoMember(notice.Sender, "session")
	}
	if lead != "" && conf.Agents[lead] == nil {
		return ended, agents.Unknown(t.Conn, orchestrator.UnknownRecipient, "lead: ", lead, conf)
	}
	if team := team(conf, notice.SessionID); lead == "" && len(team) > 0 {
		lead = team[0]
	}
	if lead != notice.Sender {
		ended.Lead = lead
	}
	before, found, err := agents.PresenceOf(t.Conn, notice.SessionID, notice.Sender)
	if err != nil || (found && before.Status != orchestrator.Working) {
		ended.Presence = before
		return ended, err
	}
	if ended.Presence, err = agents.TakePresence(t, notice.SessionID, notice.Sender, orchestrator.Idle); err != nil ||
		ended.Lead == "" {
		return ended, err
	}
	notice.Recipient = ended.Lead
	out, err := messages.SendIn(t, &notice)
	if ended.Notice = out.Sent; err == nil {
		err = messages.Undone(out.Refused)
	}
	return ended, err
}

// turnsOver records that an agent whose started session has ended no longer works in any session. It notifies the
// lead of each team in which the agent was working, each lead once, because the agent itself may have died without
// a notice. reason describes how the session ended.
func turnsOver(t *ledger.Tx, agent, reason string) error {
	conf := t.Config()
	sessions, err := t.Texts(`SELECT session_id FROM presence WHERE agent = ? AND status = 'working'`, agent)
	if err != nil {
		return err
	}
	told := []string{agent}
	for _, session := range sessions {
		if _, err := agents.TakePresence(t, session, agent, orchestrator.Idle); err != nil {
			return err
		}
		team := team(conf, session)
		if len(team) == 0 || slices.Contains(told, team[0]) {
			continue
		}
		told = append(told, team[0])
		notice, err := IdleNotice(agent, session, reason)
		if err != nil {
			return err
		}
		notice.Recipient, notice.Summary = team[0], agent+" is idle: its session has ended"
		if err := t.TellAs(&notice); err != nil {
			return err
		}
	}
	return nil
}
