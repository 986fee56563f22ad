package team

import (
	"encoding/json"
	"slices"
	"strings"

	"mailroom/commands"
	"mailroom/commands/parameter"
	"mailroom/orchestrator"
	"mailroom/orchestrator/teams"
)

// textType is the type of a plain text. A protocol message has the type of its object.
const textType = "message"

// protocolTypes lists the protocols in the order in which errors show them.
var protocolTypes = []string{
	orchestrator.ShutdownRequest, orchestrator.ShutdownResponse, orchestrator.PlanApprovalRequest,
	orchestrator.PlanApprovalResponse,
}

// content is a message to send, decoded and checked.
type content struct {
	kind    string // message_type
	preview string // source of the default summary
	payload json.RawMessage
	request *teams.Request // for a request, without its draft; the payload is the request's
	answer  *teams.Reply   // for an answer, without its draft
}

// readContent decodes the parameter message: a text, or a protocol object. A text that contains such an object counts
// as the object, because clients often encode it. The error invalid_params names the mistake in the object.
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
	payload, err := orchestrator.JSON(textBody{text})
	return content{kind: textType, preview: text, payload: payload}, err
}

// textBody is the payload of a plain message. Source: contract.md, "what stands in payload".
type textBody struct {
	Message string `json:"message" desc:"what to say"`
}

// readText decodes a JSON string as strictly as a text parameter.
func readText(raw json.RawMessage) (string, error) {
	object, err := orchestrator.JSON(map[string]json.RawMessage{"message": raw})
	if err != nil {
		return "", err
	}
	body, err := parameter.DecodeObject[textBody]("message", object)
	if err == nil && strings.TrimSpace(body.Message) == "" {
		err = emptyMessage()
	}
	return body.Message, err
}

// emptyMessage returns the error for an empty message.
func emptyMessage() error {
	return orchestrator.InvalidParam("message", "must not be empty").
		WithHint("Write a text to your teammate, or send a protocol object: %s", strings.Join(protocolTypes, ", "))
}

// typeOf returns the value of type in a JSON object, or "" for any other value.
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
			what = "has the unknown type " + orchestrator.Clip(kind)
		}
		err = orchestrator.Errorf(orchestrator.InvalidParams, "message: the object %s", what).
			WithHint("The known types are %s. Send anything else as plain text", strings.Join(protocolTypes, ", "))
	}
	c.kind = kind
	return c, err
}

// requestBody is the payload of a request, as its recipient gets it.
type requestBody struct {
	Type      string  `json:"type"`
	RequestID string  `json:"requestId"`
	Reason    *string `json:"reason,omitempty"`
	Plan      string  `json:"plan,omitempty"`
}

// asking returns the content of a request.
func asking(kind orchestrator.RequestKind, preview string, body requestBody) content {
	return content{preview: preview,
		request: &teams.Request{Kind: kind, Payload: func(id string) (json.RawMessage, error) {
			numbered := body
			numbered.RequestID = id
			payload, err := orchestrator.JSON(numbered)
			if err == nil {
				err = commands.CheckFits("message", payload)
			}
			return payload, err
		}}}
}

func readShutdownRequest(object json.RawMessage) (content, error) {
	p, err := parameter.DecodeObject[struct {
		Type   string  `json:"type" desc:"shutdown_request"`
		Reason *string `json:"reason,omitempty" desc:"why the teammate should shut down"`
	}]("message", object)
	return asking(orchestrator.Shutdown, "Please shut down"+after(p.Reason),
		requestBody{Type: p.Type, Reason: p.Reason}), err
}

func readPlanRequest(object json.RawMessage) (content, error) {
	p, err := parameter.DecodeObject[struct {
		Type string `json:"type" desc:"plan_approval_request"`
		Plan string `json:"plan" desc:"the plan to approve" check:"min=1"`
	}]("message", object)
	return asking(orchestrator.PlanApproval, "Please approve the plan: "+p.Plan,
		requestBody{Type: p.Type, Plan: p.Plan}), err
}

// answering returns the content of an answer. A rejection must have a reason.
func answering(q orchestrator.Asked, approve bool, why *string) (content, error) {
	if key := commands.WhyKey(q.Kind); !approve && (why == nil || strings.TrimSpace(*why) == "") {
		e := orchestrator.Errorf(orchestrator.InvalidParams, "message: a rejection must have the key `%s`", key)
		e.Details = map[string]any{"parameter": "message." + key}
		return content{}, e.WithHint("Give the reason in `%s`", key)
	}
	v, err := commands.TeamVerdict(q, approve, why)
	if err != nil {
		return content{}, err
	}
	return content{preview: v.Summary, payload: v.Payload, answer: &teams.Reply{
		Kind: q.Kind, RequestID: q.RequestID, Approve: approve,
	}}, nil
}

func readShutdownResponse(object json.RawMessage) (content, error) {
	p, err := parameter.DecodeObject[struct {
		Type      string  `json:"type" desc:"shutdown_response"`
		RequestID string  `json:"request_id" desc:"the requestId of the request" check:"id"`
		Approve   bool    `json:"approve" desc:"whether the sender shuts down"`
		Reason    *string `json:"reason,omitempty" desc:"why not"`
	}]("message", object)
	if err != nil {
		return content{}, err
	}
	return answering(orchestrator.Asked{RequestID: p.RequestID, Kind: orchestrator.Shutdown}, p.Approve, p.Reason)
}

func readPlanResponse(object json.RawMessage) (content, error) {
	p, err := parameter.DecodeObject[struct {
		Type      string  `json:"type" desc:"plan_approval_response"`
		RequestID string  `json:"request_id" desc:"the requestId of the request" check:"id"`
		Approve   bool    `json:"approve" desc:"whether the plan may be carried out"`
		Feedback  *string `json:"feedback,omitempty" desc:"what to change in the plan"`
	}]("message", object)
	if err != nil {
		return content{}, err
	}
	return answering(orchestrator.Asked{RequestID: p.RequestID, Kind: orchestrator.PlanApproval}, p.Approve, p.Feedback)
}

// after returns a text in a form that follows other text in a preview, after a colon. It returns "" if there is no
// text.
func after(text *string) string {
	if text == nil || strings.TrimSpace(*text) == "" {
		return ""
	}
	return ": " + *text
}
