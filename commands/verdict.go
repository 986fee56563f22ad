package commands

import (
	"encoding/json"
	"strings"

	"mailroom/commands/parameter"
	"mailroom/orchestrator"
	"mailroom/orchestrator/pattern"
)

// TeamVerdict returns the answer to a team's request, in the form of the request. why is the reason for a rejection,
// or a comment on an approval; it may be nil. Source: document 001, "Structured Protocol Messages".
func TeamVerdict(q orchestrator.Asked, approve bool, why *string) (*orchestrator.Verdict, error) {
	body := struct {
		Type      string  `json:"type"`
		RequestID string  `json:"request_id,omitempty"` // "" if the request has another form
		Approve   bool    `json:"approve"`
		Reason    *string `json:"reason,omitempty"`
		Feedback  *string `json:"feedback,omitempty"`
		// PlanModeRequired is false in the approval of a plan, which ends the requester's plan mode.
		PlanModeRequired *bool `json:"plan_mode_required,omitempty"`
	}{Type: orchestrator.ShutdownResponse, RequestID: q.RequestID, Approve: approve}
	summary := "Shutdown "
	if q.Kind == orchestrator.PlanApproval {
		body.Type, body.Feedback, summary = orchestrator.PlanApprovalResponse, why, "Plan "
		if approve {
			body.PlanModeRequired = new(false)
		}
	} else {
		body.Reason = why
	}
	if approve {
		summary += "approved"
	} else {
		summary += "rejected"
	}
	if why != nil && strings.TrimSpace(*why) != "" {
		summary += ": " + *why
	}
	payload, err := orchestrator.JSON(body)
	return &orchestrator.Verdict{Approve: approve, Type: body.Type, Payload: payload, Summary: Preview(summary)}, err
}

// WhyKey returns the key for the reason of a rejection: reason for a shutdown, feedback for a plan.
func WhyKey(kind orchestrator.RequestKind) string {
	if kind == orchestrator.PlanApproval {
		return "feedback"
	}
	return "reason"
}

// VerdictIn reads the decision on a team's request from a payload in the form of any vocabulary:
//
//	{"approve": true}, {"approve": false, "reason": "why"}    also with feedback; as relay's payload, too
//	approve, reject: why                                      as text, or as ralph's answer
//	a team's own shutdown_response or plan_approval_response
//
// Anything else is an error that explains how to write a decision: an unclear answer must not count as a decision,
// and nothing that its writer added may be lost.
func VerdictIn(payload json.RawMessage) func(orchestrator.Asked) (*orchestrator.Verdict, error) {
	return func(q orchestrator.Asked) (*orchestrator.Verdict, error) {
		c := ContentOf(&orchestrator.Message{Payload: payload})
		if c.Data == nil {
			return verdictOfText(q, c.Text)
		}
		if c.Text == string(c.Data) {
			c.Text = ""
		}
		return verdictOfData(q, c.Data, c.Text)
	}
}

// VerdictIfClear reads a payload as VerdictIn does, but treats an unclear answer as a message that decides nothing.
func VerdictIfClear(payload json.RawMessage) func(orchestrator.Asked) (*orchestrator.Verdict, error) {
	read := VerdictIn(payload)
	return func(q orchestrator.Asked) (*orchestrator.Verdict, error) {
		v, err := read(q)
		if err != nil {
			return nil, nil
		}
		return v, nil
	}
}

// verdictWords matches a text that approves or rejects.
var verdictWords = pattern.New(`(?is)^\s*(approved?|reject(?:ed)?)\s*(?:[.!]?\s*|:(.*))$`)

func verdictOfText(q orchestrator.Asked, text string) (*orchestrator.Verdict, error) {
	match := verdictWords().FindStringSubmatch(text)
	if match == nil {
		return nil, unclear(q, "does not approve or reject it")
	}
	return verdict(q, approves(match), match[2])
}

// approves reports whether a match of verdictWords approves.
func approves(match []string) bool { return strings.HasPrefix(strings.ToLower(match[1]), "approve") }

// verdictOfData reads an object. said is the text beside the object.
func verdictOfData(q orchestrator.Asked, data json.RawMessage, said string) (*orchestrator.Verdict, error) {
	p, err := parameter.DecodeObject[struct {
		Approve   *bool   `json:"approve,omitempty" desc:"whether the answer approves the request"`
		Reason    *string `json:"reason,omitempty" desc:"reason for a rejection"`
		Feedback  *string `json:"feedback,omitempty" desc:"changes that are needed"`
		Type      *string `json:"type,omitempty" desc:"type of a team's answer"`
		RequestID *string `json:"request_id,omitempty" desc:"ID of the request"`
		Question  *string `json:"questionId,omitempty" desc:"ID of the message that is answered, in the form of document 002"`
		Answer    *string `json:"answer,omitempty" desc:"text of the answer, in the form of document 002"`
	}]("payload", data)
	switch {
	case err != nil:
		return nil, unclear(q, "has a payload that is not a valid answer ("+err.Error()+")")
	case p.Type != nil && *p.Type != string(q.Kind)+"_response", p.RequestID != nil && *p.RequestID != q.RequestID:
		return nil, unclear(q, "has a payload that answers another request")
	case p.Reason != nil && p.Feedback != nil, p.Approve != nil && p.Answer != nil:
		return nil, unclear(q, "contains two reasons or two decisions")
	case p.Approve == nil && p.Answer != nil && p.Reason == nil && p.Feedback == nil:
		return verdictOfText(q, *p.Answer)
	case p.Approve == nil:
		return nil, unclear(q, "does not approve or reject it")
	}
	if match := verdictWords().FindStringSubmatch(said); match != nil && approves(match) != *p.Approve {
		return nil, unclear(q, "has a text and a payload that contradict each other")
	}
	for _, why := range []*string{p.Reason, p.Feedback} {
		if why == nil {
			continue
		}
		if said != "" { // keep both
			return verdict(q, *p.Approve, *why+"\n\n"+said)
		}
		return verdict(q, *p.Approve, *why)
	}
	return verdict(q, *p.Approve, said)
}

// verdict returns the answer with a text. Only the text of an approval may be empty.
func verdict(q orchestrator.Asked, approve bool, text string) (*orchestrator.Verdict, error) {
	text = strings.TrimSpace(text)
	if text == "" && !approve {
		return nil, unclear(q, "rejects it without a reason")
	}
	var why *string
	if text != "" {
		why = &text
	}
	v, err := TeamVerdict(q, approve, why)
	if err == nil {
		err = CheckFits("message", v.Payload)
	}
	return v, err
}

// unclear returns the error for an answer without a clear decision. The error lists the valid forms.
func unclear(q orchestrator.Asked, problem string) error {
	e := orchestrator.Errorf(orchestrator.InvalidParams, "the message answers the %s_request %s (reply_to), but %s", q.Kind,
		q.RequestID, problem)
	e.Details = map[string]any{"parameter": "reply_to", "request_id": q.RequestID}
	return e.WithHint(`Send {"approve": true} or {"approve": false, "%s": "why"} as the payload, or "approve" or "reject: why" as text. To send something else, leave out reply_to`,
		WhyKey(q.Kind))
}
