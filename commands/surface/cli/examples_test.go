package cli

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	urfave "github.com/urfave/cli/v2"

	"mailroom/commands"
	"mailroom/commands/surface/surfacetest"
	"mailroom/commands/surface/web"
)

// TestExamplesFitTheirSchemas checks that the examples on the cards, parsed as on the command line, match the HTTP
// description of their commands, and that their answers do, too.
func TestExamplesFitTheirSchemas(t *testing.T) {
	t.Parallel()
	catalogue := surfacetest.Catalogue()
	text, err := web.OpenAPI(catalogue, "v1")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatal(err)
	}
	examples := 0
	for _, d := range catalogue.All() {
		item := doc.Paths.Value("/v1/commands/" + d.Name)
		if item == nil {
			continue
		}
		schema := item.Post.RequestBody.Value.Content.Get("application/json").Schema.Value
		answer := item.Post.Responses.Status(200).Value.Content.Get("application/json").Schema.Value
		card := d.Card()
		for _, e := range examplesOf(t, card) {
			if e.name != d.Name {
				continue
			}
			examples++
			if err := schema.VisitJSON(spelled(d, value(t, e.params)), openapi3.EnableJSONSchema2020()); err != nil {
				t.Errorf("%s: the example %s: %v", d.Name, e.params, err)
			}
			if strings.HasPrefix(e.answer, `{"success":true`) && strings.HasSuffix(e.answer, "}") {
				if err := answer.VisitJSON(value(t, []byte(e.answer)), openapi3.EnableJSONSchema2020()); err != nil {
					t.Errorf("%s: the answer %s: %v", d.Name, e.answer, err)
				}
			}
		}
	}
	if examples < len(doc.Paths.Map()) {
		t.Errorf("%d examples for %d commands", examples, len(doc.Paths.Map()))
	}
}

// spelled returns v with its keys in the spelling of the schema, if the vocabulary of the command takes any case.
func spelled(d *commands.Definition, v any) any {
	object, ok := v.(map[string]any)
	if !ok || !d.Vocabulary().FoldCase {
		return v
	}
	known := map[string]any{}
	for key, value := range object {
		for i := range d.Params() {
			if name := d.Params()[i].Name; strings.EqualFold(name, key) {
				key = name
			}
		}
		known[key] = value
	}
	return known
}

func value(t *testing.T, text []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// example is a command line on a card, with the line of its answer.
type example struct {
	name   string // name of the command
	params json.RawMessage
	answer string
}

// examplesOf parses the command lines in the examples of a card, as the program does.
func examplesOf(t *testing.T, card *commands.Card) (list []example) {
	t.Helper()
	_, text, _ := strings.Cut(card.Body, "## Examples")
	lines := strings.Split(strings.ReplaceAll(text, "\\\n", " "), "\n")
	for i, line := range lines {
		line = strings.TrimPrefix(strings.TrimSpace(line), "$ ")
		_, line, ok := strings.Cut(line, "mailroom ")
		if !ok || strings.ContainsAny(line, "|<@") || strings.Contains(line, "--stdin") {
			continue
		}
		if name, params, ok := asked(t, words(line)); ok {
			e := example{name: name, params: params}
			if i+1 < len(lines) {
				e.answer = strings.TrimSpace(lines[i+1])
			}
			list = append(list, e)
		}
	}
	return list
}

// words splits a line as a shell does, as far as the examples require.
func words(line string) (list []string) {
	var word strings.Builder
	var quote rune
	begun := false
	for _, c := range line + " " {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, begun = c, true
		case quote == 0 && c == ' ':
			if begun {
				list = append(list, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(c)
			begun = true
		}
	}
	return list
}

// asked converts the words of a command line to a command and its parameters.
func asked(t *testing.T, words []string) (name string, params json.RawMessage, ok bool) {
	t.Helper()
	p := &Program{
		Config: Config{Catalogue: surfacetest.Catalogue(), Version: "v1"}, In: strings.NewReader(""), Out: io.Discard,
		Err:    io.Discard,
		Getenv: func(string) string { return "" },
	}
	if len(words) == 3 && words[0] == "invoke" {
		d, err := p.Catalogue.Lookup(words[1])
		if err != nil {
			t.Fatal(err)
		}
		return d.Name, json.RawMessage(words[2]), true
	}
	l := p.readArgs(words)
	if d := l.definition; d != nil {
		l.called.Action = func(ctx *urfave.Context) (err error) {
			name, ok = d.Name, true
			params, err = p.paramsOf(ctx, d, nil)
			return err
		}
	}
	if err := p.dispatch(t.Context(), l); err != nil {
		return "", nil, false // some examples show refused command lines
	}
	return name, params, ok
}
