package parameter

import (
	"encoding/json"
	"testing"
)

// TestSchemaAgreesWithTheDecoder compares the schema, which tools check against, with the decoder.
func TestSchemaAgreesWithTheDecoder(t *testing.T) {
	t.Parallel()
	params, err := Of(everything{})
	if err != nil {
		t.Fatal(err)
	}
	schema, err := Schema(params).Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	for raw, both := range map[string]bool{
		`{}`: true, `{"text":"é"}`: true, `{"text":"12345678"}`: true,
		`{"count":1000,"ratio":1.5,"wait_seconds":60}`:                                                       true,
		`{"agent":"Code_Developer","id":"msg-1","list":["a","b"],"any":[1,{"b":null}],"yes":true,"maybe":0}`: true,
		`{"count":5.0,"wait_seconds":1.0e1,"maybe":0.0}`:                                                     true,
		`{"count":5.5}`: false, `{"maybe":1e-3}`: false, `{"count":1.001e3}`: false,
		`{"text":"123456789"}`: false, `{"count":0}`: false, `{"count":1001}`: false, `{"count":1.5}`: false,
		`{"count":"1"}`: false, `{"ratio":2}`: false,
		`{"word":"blue"}`: false, `{"agent":"../x"}`: false, `{"id":""}`: false, `{"list":["a","b","c"]}`: false,
		`{"list":[1]}`:   false,
		`{"yes":"true"}`: false, `{"maybe":-1}`: false, `{"wait_seconds":61}`: false, `{"more":1}`: false,
	} {
		var value any
		if err := json.Unmarshal([]byte(raw), &value); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); (err == nil) != both {
			t.Errorf("%s: the schema says %v", raw, err)
		}
		if _, err := decodeInto[everything](t, raw, true); (err == nil) != both {
			t.Errorf("%s: the decoder says %v", raw, err)
		}
	}
}
