package commands

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"mailroom/orchestrator"
)

// panicOf returns the text with which f panics, or "" if f does not panic.
func panicOf(f func()) (text string) {
	defer func() {
		if p := recover(); p != nil {
			text = fmt.Sprint(p)
		}
	}()
	f()
	return ""
}

func TestDefinitionRefusesWrongCards(t *testing.T) {
	t.Parallel()
	cards := map[string]string{
		"":                            "missing card",
		"# try\n":                     "front matter is missing or not closed",
		"---\n" + front + "\n# try\n": "front matter is missing or not closed",
		strings.Replace(goodCard, "orchestrator.try", "try", 1): `command must be "orchestrator.try", but is "try"`,
	}
	for card, says := range cards {
		v := vocabularyOf("try", card)
		if card == "" {
			v.Cards = fstest.MapFS{}
		}
		if got := panicOf(func() { Define(v, "try", nothing[struct{}]).Card() }); !strings.Contains(got, says) {
			t.Errorf("the card %q panics with %q; want %q", card, got, says)
		}
	}
}

// badParams checks the panic when parameters of type P are first used.
func badParams[P any](t *testing.T, says string) {
	t.Helper()
	got := panicOf(func() { Define(vocabularyOf("try", goodCard), "try", nothing[P]).Params() })
	if !strings.Contains(got, says) {
		t.Errorf("panics with %q; want %q", got, says)
	}
}

func TestDefineRefusesWrongParams(t *testing.T) {
	t.Parallel()
	badParams[string](t, "must be a struct")
	badParams[struct {
		A string `desc:"x"`
	}](t, "no JSON name")
	badParams[struct {
		A string `json:"a"`
	}](t, "has no description")
	badParams[struct {
		A map[string]int `json:"a" desc:"x"`
	}](t, "unsupported parameter type")
	badParams[struct {
		A int `json:"a" desc:"x" check:"most=1"`
	}](t, `unknown check "most=1"`)
	badParams[struct {
		A int `json:"a" desc:"x" check:"min=one"`
	}](t, "min=one")
	badParams[struct {
		A int `json:"a" desc:"x" check:"max=5" default:"6"`
	}](t, "default of parameter a: must be at most 5, but is 6")
	badParams[struct {
		A string `json:"a" desc:"x" check:"oneof=x|y" default:"z"`
	}](t, "one of x, y")
}

func TestDefineRefusesNamesOfNoParameter(t *testing.T) {
	t.Parallel()
	define := func() Typed[needy, struct{}] { return Define(vocabularyOf("try", goodCard), "try", nothing[needy]) }
	for says, d := range map[string]Typed[needy, struct{}]{
		"": define().
			With(Traits{Confirm: "This ends {name}.", ConfirmWith: "name"}).Knowing("name", KnownThreads),
		"unknown parameter naem":   define().Knowing("naem", KnownThreads),
		"unknown parameter noname": define().With(Traits{Confirm: "This ends {name} of {noname}."}),
		"unknown parameter all":    define().With(Traits{Confirm: "This ends {name}.", ConfirmWith: "all"}),
	} {
		if got := panicOf(func() { d.Params() }); !strings.HasSuffix(got, says) || (got == "") != (says == "") {
			t.Errorf("panics with %q; want %q", got, says)
		}
	}
}

func TestCardOfADefinition(t *testing.T) {
	t.Parallel()
	d := Define(vocabularyOf("try", goodCard), "try", nothing[struct{}])
	card := d.Card()
	if card.Description != "Try something" || d.Summary() != card.Description || d.Help() != "# try\n\nTries." ||
		card.Body != d.Help() {
		t.Errorf("card %+v, summary %q, help %q", card, d.Summary(), d.Help())
	}
	for _, bad := range []string{
		strings.Replace(goodCard, "rights: self", "rights: everybody", 1),
		strings.Replace(goodCard, "agent: orchestrator", "agent: orchestrator\ncolour: red", 1),
		strings.Replace(goodCard, "action: try", "action:", 1),
		"---\n" + front + "---\n\n",
	} {
		d := Define(vocabularyOf("try", bad), "try", nothing[struct{}])
		if panicOf(func() { d.Card() }) == "" {
			t.Errorf("%q is taken for a card", bad)
		}
	}
}

func TestPaths(t *testing.T) {
	t.Parallel()
	nested := strings.Replace(goodCard, "orchestrator.try", "orchestrator.agent add", 1)
	v := vocabularyOf("agent_add", nested)
	if got := Define(v, "agent add", nothing[struct{}]).CommandLine(); got != "mailroom agent add" {
		t.Errorf("called as %q", got)
	}
	v.TopLevel = false
	if got := Define(v, "agent add", nothing[struct{}]).CommandLine(); got != "mailroom test agent add" {
		t.Errorf("called as %q", got)
	}
}

func TestLookup(t *testing.T) {
	t.Parallel()
	named := func(name string) *Definition {
		card := strings.Replace(goodCard, "orchestrator.try", "orchestrator."+name, 1)
		return Define(vocabularyOf(name, card), name, nothing[struct{}]).Definition
	}
	c := NewCatalogue([]*Definition{named("deliver_all"), named("route-inter-agent-messages")})
	for _, name := range []string{"deliver_all", "deliver-all", "Deliver_All", "orchestrator.deliver-all",
		"ORCHESTRATOR.deliver_all"} {
		if d, err := c.Lookup(name); err != nil || d.Name != "deliver_all" {
			t.Errorf("%s finds %v, %v", name, d, err)
		}
	}
	for _, name := range []string{"route_inter_agent_messages", "orchestrator.route-inter-agent-messages"} {
		if d, err := c.Lookup(name); err != nil || d.Name != "route-inter-agent-messages" {
			t.Errorf("%s finds %v, %v", name, d, err)
		}
	}
	_, err := c.Lookup("delver_all")
	codeIs(t, err, orchestrator.UnknownCommand)
	if err != nil && !strings.Contains(err.Error(), "Did you mean deliver_all?") {
		t.Errorf("%v; want the near name", err)
	}
	_, err = c.Lookup(strings.Repeat("x", 1<<20))
	codeIs(t, err, orchestrator.UnknownCommand)
	if err != nil && len(err.Error()) > 300 {
		t.Errorf("the error repeats a name of a megabyte")
	}
}
