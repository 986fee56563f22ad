package orchestrator

import (
	"maps"
	"slices"
	"strings"
)

// Wake controls how a message affects its recipient's session in an agent host: it may start a turn (now), only
// prolong a turn (rest), or neither (never). A command or a tool that asks for messages gets all of them.
type Wake string

// The wakes, from the strongest to the weakest.
const (
	WakeNow   Wake = "now"   // wakes an idle session, and a turn does not end without it
	WakeRest  Wake = "rest"  // wakes no idle session, but a turn does not end without it
	WakeNever Wake = "never" // no turn starts or goes on for it: shown beside others, or in a turn that goes on anyway
)

// Wakes lists all wakes, strongest first.
var Wakes = []Wake{WakeNow, WakeRest, WakeNever}

// AtLeast reports whether w is at least as strong as other. Both must be in Wakes.
func (w Wake) AtLeast(other Wake) bool { return slices.Index(Wakes, w) <= slices.Index(Wakes, other) }

// WakeRules maps message types, in upper case, to the wakes that a recipient sets for them. The key "" holds the
// rule for all other types; there, rest makes no message stronger.
type WakeRules map[string]Wake

// ParseWakeRules parses rules separated by commas: WAKE for all types, TYPE=WAKE for one type. An empty text
// contains no rules. Error: invalid_params.
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

// String formats the rules in a form that ParseWakeRules accepts.
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

// WakeOf returns the wake of a message to a recipient with these rules, and who set it: m's recipient, its sender,
// or nobody (""). If nobody set it, interrupts are now; confirmations (ACK, PONG) and messages of low priority are
// never; status messages (STATUS) and messages of Mailroom itself are rest; all others are now.
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

// usualWake returns the wake of a message without a recipient's rules. kind is the type in upper case.
func usualWake(m *Message, kind string) (wake Wake, wantedBy string) {
	switch {
	case slices.Contains(Wakes, m.Wake): // a row written by hand can hold any text
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
