package web_test

import (
	"context"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"mailroom/commands/surface/surfacetest"
	"mailroom/commands/surface/web"
)

// described loads the description from the endpoints and validates it against the specification.
func described(t *testing.T) *openapi3.T {
	t.Helper()
	f := newFort(t, web.Options{}, "ann")
	status, _, text := f.Request("GET", "/v1/openapi.json", "", bearer(f.Token("ann", false)))
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
		`"type":"object"`: `"type":"objekt"`, `"operationId":"send_message"`: `"operationId":"send"`,
		`"in":"query"`:  `"in":"somewhere"`,
		`"responses":{`: `"answers":{`, `#/components/schemas/Failure`: `#/components/schemas/None`,
		`"version":"v1.2.3"`: `"versions":1`,
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

// TestOpenAPI checks that the description is valid and has every command that can run over HTTP, with a schema that
// accepts no other keys. TestExamplesFitTheirSchemas checks the examples on the cards.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	doc := described(t)
	for _, d := range surfacetest.Catalogue().All() {
		item := doc.Paths.Value(commandsPath + d.Name)
		if d.HereOnly {
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
		if err := schema.VisitJSON(map[string]any{"no_such_parameter": 1.0},
			openapi3.EnableJSONSchema2020()); err == nil {
			t.Errorf("%s: the schema takes a key that there is not", d.Name)
		}
	}
}
