package commands

import (
	"encoding/json"
	"testing"

	"mailroom/orchestrator"
)

func TestSchemaSaysWhatIsRequired(t *testing.T) {
	t.Parallel()
	got, err := orchestrator.JSON(Define(vocabularyOf("try", goodCard), "try", nothing[needy]).Schema())
	want := `{"type":"object","description":"Try something","properties":{"name":{"type":"string","description":"a name that must be there"}},"required":["name"],"additionalProperties":false}`
	var g, w any
	if err == nil {
		err = json.Unmarshal(got, &g)
	}
	if err != nil || json.Unmarshal([]byte(want), &w) != nil {
		t.Fatal(err)
	}
	again, _ := orchestrator.JSON(g)
	expected, _ := orchestrator.JSON(w)
	if string(again) != string(expected) {
		t.Errorf("%s; want %s", got, want)
	}
}
