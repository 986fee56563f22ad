package orchestrator

import (
	"maps"
	"slices"
	"strings"
)

// Wake says whether a message may start a turn of its recipient's session in an agent host (now), only prolong one
// (rest), or neither (never). Whoever asks for messages, by a command or a tool, gets all of them.
type Wake string

// The wakes, from the dearest to the cheapest.
const (
	WakeNow   Wake = "now"   // it wakes an idle session, and a turn does not end without it
	WakeRest  Wake = "rest"  // it wakes no idle session, but a turn does not end without it
	WakeNever Wake = "never" // nor does a turn go on for it: it is shown beside others, or in a turn that goes on anyway
)

// Wakes are all of them.
var Wakes = []Wake{WakeNow, WakeRest, WakeNever}

// AtLeast reports whether w is as strong as other, or stronger. Both must be of Wakes.
func (w Wake) AtLeast(other Wake) bool { return slices.Index(Wakes, w) <= slices.Index(Wakes, other) }

// WakeRules are the wakes that a recipient wants messages to have, by their types in upper case; under "" that of all
// other types, where rest makes no message dearer.
type WakeRules map[string]Wake

// ParseWakeRules reads rules: WAKE, for all types, and TYPE=WAKE, separated by commas. An empty text has none. Error:
// invalid_params.
func ParseWakeRules(text string) (WakeRules, error) {
	rules := WakeRules{}
	if strings.TrimSpace(text) == "" {
		return rules, nil
	}
	for rule := range strings.SplitSeq(text, ",") {
		kind, wake, has := strings.Cut(rule, "=")
		if kind = strings.ToUpper(strings.TrimSpace(kind)); !has {
			kind, wake = "", kind
		}
		wanted := Wake(strings.ToLower(strings.TrimSpace(wake)))
		if !slices.Contains(Wakes, wanted) || has && kind == "" || len(kind) > MaxType {
			return nil, InvalidParam("wake", "%q is not a valid rule", Clip(strings.TrimSpace(rule))).
				WithHint("Use `now`, `rest`, or `never`. For a rule for one message type, use the form TYPE=WAKE, such as `STATUS=never`. Separate rules with commas")
		}
		if _, twice := rules[kind]; twice {
			return nil, InvalidParam("wake", "%q contains two rules for the same messages", Clip(text)).
				WithHint("Give one rule for each type, and one rule without a type for all other types")
		}
		rules[kind] = wanted
	}
	return rules, nil
}

// String returns the rules as ParseWakeRules reads them.
func (rules WakeRules) String() string {
	var list []string
	for _, kind := range slices.Sorted(maps.Keys(rules)) {
		if rule := string(rules[kind]); kind == "" {
			list = append(list, rule)
		} else {
			list = append(list, kind+"="+rule)
		}
	}
	return strings.Join(list, ",")
}

// WakeOf returns the wake of a message to a recipient with these rules, and who wants it so: m's recipient, its sender,
// or nobody (""). Then interrupts wake, what confirms (ACK, PONG) or has a low priority never does, what tells how
// something stands (STATUS), or is told by Mailroom itself, comes with the rest, and everything else wakes.
func (rules WakeRules) WakeOf(m *Message) (wake Wake, wantedBy string) {
	kind := strings.ToUpper(m.Type)
	if wake, ruled := rules[kind]; ruled && kind != "" {
		return wake, m.Recipient
	}
	wake, wantedBy = usualWake(m, kind)
	if rule, ruled := rules[""]; ruled && (rule != WakeRest || wake == WakeNow) {
		return rule, m.Recipient
	}
	return wake, wantedBy
}

// usualWake is WakeOf without rules. kind is the type in upper case.
func usualWake(m *Message, kind string) (wake Wake, wantedBy string) {
	switch {
	case slices.Contains(Wakes, m.Wake): // by hand, anything can be written
		return m.Wake, m.Sender
	case m.Action == "interrupt":
		return WakeNow, ""
	case m.Priority < 0, kind == "ACK", kind == "PONG":
		return WakeNever, ""
	case kind == "STATUS", m.Sender == SystemSender:
		return WakeRest, ""
	}
	return WakeNow, ""
}
