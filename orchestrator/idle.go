package orchestrator

import (
	"context"
	"encoding/json"
	"slices"
)

// IdleNotice makes the message that tells of the end of an agent's turn, without its recipient. reason may be empty.
func IdleNotice(agent, session, reason string) (Draft, error) {
	body := struct {
		Type   string          `json:"type"`
		From   string          `json:"from"`
		Reason json.RawMessage `json:"reason,omitempty"`
	}{Type: IdleNotification, From: agent}
	if reason != "" {
		body.Reason = JSONString(reason)
	}
	payload, err := json.Marshal(body)
	return Draft{Sender: agent, Type: IdleNotification, Payload: payload, SessionID: session}, err
}

// TurnEnded is what came of the end of an agent's turn.
type TurnEnded struct {
	Presence Presence
	Lead     string // who hears of it; "" when there is nobody but the agent itself
	Notice   Sent   // zero when nobody was told: there is no lead, or the agent was idle or stopped before
}

// EndTurn notes that an agent's turn in a session ended, and tells the team's lead, once a turn: an agent that is idle
// already, or stopped, stays so and nobody is told. Both happen in one transaction. lead names another agent to tell; ""
// is the team's own. The notice's SessionID and Sender say whose turn it was; its Recipient is set here. Errors:
// as Join; unknown_recipient for the lead.
func (r *Router) EndTurn(ctx context.Context, lead string, notice Draft) (ended TurnEnded, err error) {
	if notice, err = notice.checkFromTeam(); err != nil {
		return ended, err
	}
	if lead != "" {
		if lead, err = CheckName("lead", lead); err != nil {
			return ended, err
		}
	}
	err = r.write(ctx, func(t *tx) (err error) {
		ended, err = t.endTurn(lead, notice)
		return err
	})
	return ended, err
}

func (t *tx) endTurn(lead string, notice Draft) (ended TurnEnded, err error) {
	conf, err := t.acting(notice.Sender, notice.RegisterSender)
	if err != nil {
		return ended, err
	}
	if IsBuiltIn(notice.Sender) {
		return ended, noMember(notice.Sender, "session")
	}
	if lead != "" && conf.agents[lead] == nil {
		return ended, t.unknownAgent(UnknownRecipient, "lead: ", lead, conf)
	}
	if team := conf.team(notice.SessionID); lead == "" && len(team) > 0 {
		lead = team[0]
	}
	if lead != notice.Sender {
		ended.Lead = lead
	}
	before, found, err := t.presenceOf(notice.SessionID, notice.Sender)
	if err != nil || (found && before.Status != Working) {
		ended.Presence = before
		return ended, err
	}
	if ended.Presence, err = t.takePresence(notice.SessionID, notice.Sender, Idle); err != nil || ended.Lead == "" {
		return ended, err
	}
	notice.Recipient = ended.Lead
	var refusal error
	if ended.Notice, refusal, err = t.send(&notice); err == nil {
		err = undone(refusal)
	}
	return ended, err
}

// turnsOver notes that an agent whose started session has ended works nowhere any more, and tells the lead of each team in
// which it did, each once: the agent itself may have died without a word. reason is how the session ended.
func (t *tx) turnsOver(agent, reason string) error {
	conf, err := t.config()
	if err != nil {
		return err
	}
	sessions, err := t.texts(`SELECT session_id FROM presence WHERE agent = ? AND status = 'working'`, agent)
	if err != nil {
		return err
	}
	told := []string{agent}
	for _, session := range sessions {
		if _, err := t.takePresence(session, agent, Idle); err != nil {
			return err
		}
		team := conf.team(session)
		if len(team) == 0 || slices.Contains(told, team[0]) {
			continue
		}
		told = append(told, team[0])
		notice, err := IdleNotice(agent, session, reason)
		if err != nil {
			return err
		}
		notice.Recipient, notice.Summary = team[0], agent+" is idle: its session has ended"
		if err := t.tellAs(&notice); err != nil {
			return err
		}
	}
	return nil
}
