package team

import (
	"encoding/json"
	"slices"
	"strings"

	"mailroom/commands"
	"mailroom/orchestrator"
)

// textType is the type of a text. That of a protocol is the type of its object, too.
const textType = "message"

// protocolTypes are the protocols, in the order in which an error lists them.
var protocolTypes = []string{
	orchestrator.ShutdownRequest, orchestrator.ShutdownResponse, orchestrator.PlanApprovalRequest, orchestrator.PlanApprovalResponse,
}

// content is what a caller wants to send, read and checked.
type content struct {
	kind    string // message_type
	preview string // what a summary is made of when none is given
	payload json.RawMessage
	request *orchestrator.TeamRequest // of a request, without its draft; the payload is the request's
	answer  *orchestrator.TeamAnswer  // of an answer, without its draft
}

// readContent reads the parameter message: a text, or a protocol object. A text that is itself such an object counts as
// one, since clients often encode it. Error: invalid_params, which names what is wrong in the object.
func readContent(raw json.RawMessage) (content, error) {
	if raw[0] == '{' {
		return readProtocol(raw)
	}
	text, err := readText(raw)
	if err != nil {
		return content{}, err
	}
	if object := json.RawMessage(strings.TrimSpace(text)); slices.Contains(protocolTypes, typeOf(object)) {
		return readProtocol(object)
	}
	payload, err := commands.Marshal(textBody{text})
	return content{kind: textType, preview: text, payload: payload}, err
}

// textBody is the payload of a plain message. Source: contract.md, "what stands in payload".
type textBody struct {
	Message string `json:"message" desc:"what to say"`
}

// readText reads a JSON string as strictly as a parameter that is a text.
func readText(raw json.RawMessage) (string, error) {
	object, err := commands.Marshal(map[string]json.RawMessage{"message": raw})
	if err != nil {
		return "", err
	}
	body, err := commands.DecodeObject[textBody]("message", object)
	if err == nil && strings.TrimSpace(body.Message) == "" {
		err = emptyMessage()
	}
	return body.Message, err
}

// emptyMessage is the error for a message that says nothing.
func emptyMessage() error {
	e := orchestrator.Errorf(orchestrator.InvalidParams, "message: it is empty")
	e.Details = map[string]any{"parameter": "message"}
	return e.WithHint("Say something to your teammate, or send a protocol object: %s", strings.Join(protocolTypes, ", "))
}

// typeOf returns the type that a JSON object names, "" for anything else.
func typeOf(object json.RawMessage) string {
	var named struct {
		Type json.RawMessage `json:"type"`
	}
	var name string
	if json.Unmarshal(object, &named) != nil || json.Unmarshal(named.Type, &name) != nil {
		return ""
	}
	return name
}

func readProtocol(object json.RawMessage) (c content, err error) {
	kind := typeOf(object)
	switch kind {
	case orchestrator.ShutdownRequest:
		c, err = readShutdownRequest(object)
	case orchestrator.PlanApprovalRequest:
		c, err = readPlanRequest(object)
	case orchestrator.ShutdownResponse:
		c, err = readShutdownResponse(object)
	case orchestrator.PlanApprovalResponse:
		c, err = readPlanResponse(object)
	default:
		what := "has no type"
		if kind != "" {
			what = "has the type " + clip(kind) + ", which nobody knows"
		}
		err = orchestrator.Errorf(orchestrator.InvalidParams, "message: the object %s", what).
			WithHint("Known are %s; say anything else as plain text", strings.Join(protocolTypes, ", "))
	}
	c.kind = kind
	return c, err
}

// requestBody is the payload of a request, as the one who is asked gets it.
type requestBody struct {
	Type      string  `json:"type"`
	RequestID string  `json:"requestId"`
	Reason    *string `json:"reason,omitempty"`
	Plan      string  `json:"plan,omitempty"`
}

// asking makes the content of a request.
func asking(kind orchestrator.RequestKind, preview string, body requestBody) content {
	return content{preview: preview, request: &orchestrator.TeamRequest{Kind: kind, Payload: func(id string) (json.RawMessage, error) {
		numbered := body
		numbered.RequestID = id
		payload, err := commands.Marshal(numbered)
		if err == nil {
			err = commands.CheckFits("message", payload)
		}
		return payload, err
	}}}
}

func readShutdownRequest(object json.RawMessage) (content, error) {
	p, err := commands.DecodeObject[struct {
		Type   string  `json:"type" desc:"shutdown_request"`
		Reason *string `json:"reason,omitempty" desc:"why the teammate should shut down"`
	}]("message", object)
	return asking(orchestrator.Shutdown, "Please shut down"+after(p.Reason), requestBody{Type: p.Type, Reason: p.Reason}), err
}

func readPlanRequest(object json.RawMessage) (content, error) {
	p, err := commands.DecodeObject[struct {
		Type string `json:"type" desc:"plan_approval_request"`
		Plan string `json:"plan" desc:"the plan to approve" check:"min=1"`
	}]("message", object)
	return asking(orchestrator.PlanApproval, "Please approve the plan: "+p.Plan, requestBody{Type: p.Type, Plan: p.Plan}), err
}

// responseBody is the payload of an answer, as the one who asked gets it.
type responseBody struct {
	Type      string  `json:"type"`
	RequestID string  `json:"request_id"`
	Approve   bool    `json:"approve"`
	Reason    *string `json:"reason,omitempty"`
	Feedback  *string `json:"feedback,omitempty"`
	// PlanModeRequired is false in the approval of a plan, which ends the requester's plan mode.
	PlanModeRequired *bool `json:"plan_mode_required,omitempty"`
}

// answering makes the content of an answer. why is the text that a rejection must have, under the key whyKey.
func answering(kind orchestrator.RequestKind, body responseBody, whyKey string, why *string) (content, error) {
	verdict := map[orchestrator.RequestKind]string{orchestrator.Shutdown: "Shutdown", orchestrator.PlanApproval: "Plan"}[kind]
	switch {
	case body.Approve:
		verdict += " approved"
	case why == nil || strings.TrimSpace(*why) == "":
		e := orchestrator.Errorf(orchestrator.InvalidParams, "message: a rejection needs %s", whyKey)
		e.Details = map[string]any{"parameter": "message." + whyKey}
		return content{}, e.WithHint("Say in %s what speaks against it", whyKey)
	default:
		verdict += " rejected"
	}
	payload, err := commands.Marshal(body)
	return content{preview: verdict + after(why), payload: payload, answer: &orchestrator.TeamAnswer{
		Kind: kind, RequestID: body.RequestID, Approve: body.Approve,
	}}, err
}

func readShutdownResponse(object json.RawMessage) (content, error) {
	p, err := commands.DecodeObject[struct {
		Type      string  `json:"type" desc:"shutdown_response"`
		RequestID string  `json:"request_id" desc:"the requestId of the request" check:"id"`
		Approve   bool    `json:"approve" desc:"whether the sender shuts down"`
		Reason    *string `json:"reason,omitempty" desc:"why not"`
	}]("message", object)
	if err != nil {
		return content{}, err
	}
	body := responseBody{Type: p.Type, RequestID: p.RequestID, Approve: p.Approve, Reason: p.Reason}
	return answering(orchestrator.Shutdown, body, "reason", p.Reason)
}

func readPlanResponse(object json.RawMessage) (content, error) {
	p, err := commands.DecodeObject[struct {
		Type      string  `json:"type" desc:"plan_approval_response"`
		RequestID string  `json:"request_id" desc:"the requestId of the request" check:"id"`
		Approve   bool    `json:"approve" desc:"whether the plan may be carried out"`
		Feedback  *string `json:"feedback,omitempty" desc:"what to change in the plan"`
	}]("message", object)
	if err != nil {
		return content{}, err
	}
	body := responseBody{Type: p.Type, RequestID: p.RequestID, Approve: p.Approve, Feedback: p.Feedback}
	if p.Approve {
		body.PlanModeRequired = new(false)
	}
	return answering(orchestrator.PlanApproval, body, "feedback", p.Feedback)
}

// after is a text that follows in a preview, behind a colon; nothing when there is none.
func after(text *string) string {
	if text == nil || strings.TrimSpace(*text) == "" {
		return ""
	}
	return ": " + *text
}
