package surface

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/urfave/cli/v2"

	"mailroom/commands"
)

// described loads the description that the endpoints give, and holds it to the specification.
func described(t *testing.T) *openapi3.T {
	t.Helper()
	f := newFort(t, webOptions{}, "ann")
	status, _, text := f.request("GET", "/v1/openapi.json", "", bearer(f.token("ann", false)))
	if status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	doc, err := validDescription(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	if !doc.IsOpenAPI31OrLater() {
		t.Errorf("it is of version %s", doc.OpenAPI)
	}
	for before, after := range map[string]string{
		`"type":"object"`: `"type":"objekt"`, `"operationId":"send_message"`: `"operationId":"send"`, `"in":"query"`: `"in":"somewhere"`,
		`"responses":{`: `"answers":{`, `#/components/schemas/Failure`: `#/components/schemas/None`, `"version":"v1.2.3"`: `"versions":1`,
	} {
		if !strings.Contains(text, before) {
			t.Errorf("there is no %s", before)
		}
		if _, err := validDescription(t.Context(), strings.ReplaceAll(text, before, after)); err == nil {
			t.Errorf("the validator takes %s", after)
		}
	}
	return doc
}

func validDescription(ctx context.Context, text string) (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData([]byte(text))
	if err != nil {
		return nil, err
	}
	return doc, doc.Validate(ctx)
}

// The description is valid, and has every command that can be run over HTTP, whose schema takes what its card shows as
// examples and no other keys.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	doc := described(t)
	examples := 0
	for _, d := range catalogue().All() {
		item := doc.Paths.Value(commandsPath + d.Name)
		if !d.Remote() {
			if item != nil {
				t.Errorf("%s is described, and cannot be run over HTTP", d.Name)
			}
			continue
		}
		if item == nil || item.Post == nil {
			t.Errorf("%s is not described", d.Name)
			continue
		}
		schema := item.Post.RequestBody.Value.Content.Get("application/json").Schema.Value
		answer := item.Post.Responses.Status(200).Value.Content.Get("application/json").Schema.Value
		if err := schema.VisitJSON(map[string]any{"no_such_parameter": 1.0}, openapi3.EnableJSONSchema2020()); err == nil {
			t.Errorf("%s: the schema takes a key that there is not", d.Name)
		}
		card, err := d.Card()
		if err != nil {
			t.Fatal(err)
		}
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

// spelled writes keys as a schema has them: it knows the document's spelling, and its vocabulary takes
// any case.
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

// example is a command line of a card, and the line that it answers with.
type example struct {
	name   string // of the command that it runs
	params json.RawMessage
	answer string
}

// examplesOf reads the command lines among a card's examples, as the program reads them.
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

// words splits a line as a shell does, as far as examples need it.
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

// asked turns the words of a command line into a command and its parameters.
func asked(t *testing.T, words []string) (name string, params json.RawMessage, ok bool) {
	t.Helper()
	p := &Program{
		Config: Config{Catalogue: catalogue(), Version: "v1"}, In: strings.NewReader(""), Out: io.Discard, Err: io.Discard,
		Getenv: func(string) string { return "" },
	}
	if len(words) == 3 && words[0] == "invoke" {
		d, err := p.Catalogue.Lookup(words[1])
		if err != nil {
			t.Fatal(err)
		}
		return d.Name, json.RawMessage(words[2]), true
	}
	app := p.app()
	for c, d := range p.definitions {
		c.Action = func(ctx *cli.Context) (err error) {
			name, ok = d.Name, true
			params, err = p.paramsOf(ctx, d)
			return err
		}
	}
	if err := p.dispatch(t.Context(), app, p.readArgs(app, "mailroom", words)); err != nil {
		return "", nil, false // some examples show what is refused
	}
	return name, params, ok
}
