package commands

import (
	"encoding/json"
	"strings"
	"testing"

	"mailroom/orchestrator"
)

// Texts that approve, texts that reject, in the form of every vocabulary, and texts that are too unclear for either.
func TestVerdictIn(t *testing.T) {
	t.Parallel()
	plan := orchestrator.Asked{RequestID: "req-1", Kind: orchestrator.PlanApproval}
	const approved = `{"type":"plan_approval_response","request_id":"req-1","approve":true,"plan_mode_required":false}`
	rejected := func(why string) string {
		return `{"type":"plan_approval_response","request_id":"req-1","approve":false,"feedback":"` + why + `"}`
	}
	for payload, want := range map[string]string{
		`"approve"`:     approved,
		`" Approved! "`: approved,
		`{"content":"approve.","mentions":["a"]}`:               approved,
		`{"message":"APPROVE"}`:                                 approved,
		`{"message":"approve","payload":null}`:                  "",
		`{"approve":true}`:                                      approved,
		approved[:strings.Index(approved, `,"plan_mode`)] + `}`: approved,
		`"approve: but test it"`: strings.Replace(approved, `true,`,
			`true,"feedback":"but test it",`, 1),
		`{"approve":true,"feedback":"but test it"}`: strings.Replace(approved, `true,`,
			`true,"feedback":"but test it",`, 1),
		`"reject: no tests"`:                                 rejected("no tests"),
		`"Rejected: no\ntests"`:                              rejected(`no\ntests`),
		`{"approve":false,"reason":"no tests"}`:              rejected("no tests"),
		`{"approve":false,"feedback":"no tests"}`:            rejected("no tests"),
		`{"message":"no tests","payload":{"approve":false}}`: rejected("no tests"),
		`{"questionId":"m","answer":"reject: no tests"}`:     rejected("no tests"),

		``:                                      "",
		`null`:                                  "",
		`"reject"`:                              "",
		`"reject:  "`:                           "",
		`"approve it, but later"`:               "",
		`"I approve"`:                           "",
		`"disapprove"`:                          "",
		`{"approve":"yes"}`:                     "",
		`{"approve":false}`:                     "",
		`{"approve":false,"reason":" "}`:        "",
		`{"approve":true,"ticket":7}`:           "",
		`{"approve":true,"approve":false}`:      "",
		`{"approve":true,"answer":"reject: x"}`: "",
		`{"approve":false,"reason":"a","feedback":"b"}`:                "",
		`{"type":"shutdown_response","approve":true}`:                  "",
		`{"request_id":"req-2","approve":true}`:                        "",
		`{"message":"approve","payload":{"details":1}}`:                "",
		`{"questionId":"m","answer":"hm"}`:                             "",
		`{"questionId":"m","answer":"approve","reason":"two answers"}`: "",
		`{"message":"reject: busy","payload":{"approve":true}}`:        "",
		`{"message":"approve","payload":{"approve":false}}`:            "",
		`[true]`: "",
		`true`:   "",
	} {
		v, err := VerdictIn(json.RawMessage(payload))(plan)
		if want == "" {
			if err == nil || orchestrator.CodeOf(err) != orchestrator.InvalidParams ||
				!strings.Contains(err.Error(), `"feedback": "why"`) {
				t.Errorf("%s: %+v, %v", payload, v, err)
			}
			if v, err := VerdictIfClear(json.RawMessage(payload))(plan); v != nil || err != nil {
				t.Errorf("%s: %+v, %v for who may write something else", payload, v, err)
			}
			continue
		}
		if err != nil || string(v.Payload) != want || v.Type != "plan_approval_response" ||
			v.Approve != strings.Contains(want, "true") {
			t.Errorf("%s: %+v, %v; want %s", payload, v, err, want)
		}
	}
	v, err := VerdictIn(json.RawMessage(`"reject: busy"`))(orchestrator.Asked{RequestID: "req-2",
		Kind: orchestrator.Shutdown})
	if err != nil ||
		string(v.Payload) != `{"type":"shutdown_response","request_id":"req-2","approve":false,"reason":"busy"}` ||
		v.Summary != "Shutdown rejected: busy" {
		t.Errorf("%+v, %v", v, err)
	}
	_, err = VerdictIn(json.RawMessage(`"reject: ` + strings.Repeat("x", orchestrator.MaxPayload-20) + `"`))(plan)
	if orchestrator.CodeOf(err) != orchestrator.InvalidParams {
		t.Errorf("a reason that makes the answer too large: %v", err)
	}
}
