package parameter

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/corpus"
	"mailroom/orchestrator/orchestratortest/want"
)

// everything has a parameter of each kind.
type everything struct {
	Agent   string          `json:"agent,omitempty" desc:"an agent" check:"agent"`
	Word    string          `json:"word,omitempty" desc:"one of some" check:"oneof=red|green" default:"red"`
	Text    string          `json:"text,omitempty" desc:"a short text" check:"min=2,max=8"`
	ID      string          `json:"id,omitempty" desc:"an id" check:"id"`
	Count   int             `json:"count,omitempty" desc:"a count" check:"min=1,max=1000" default:"10"`
	Maybe   *int            `json:"maybe,omitempty" desc:"a count that may be absent" check:"min=0"`
	Ratio   float64         `json:"ratio,omitempty" desc:"a ratio" check:"max=1.5"`
	Yes     bool            `json:"yes,omitempty" desc:"a switch"`
	List    []string        `json:"list,omitempty" desc:"some words" check:"max=2"`
	Any     json.RawMessage `json:"any,omitempty" desc:"any value" check:"max=40"`
	Wait    Seconds         `json:"wait_seconds,omitempty" desc:"a time" check:"max=60"`
	Element []string        `json:"agents,omitempty" desc:"agents" check:"agent"`
}

// decodeInto decodes raw into P as the parameters of a command are decoded.
func decodeInto[P any](t testing.TB, raw string, fold bool) (P, error) {
	t.Helper()
	var p P
	params, err := Of(p)
	if err != nil {
		t.Fatal(err)
	}
	return p, Decode(json.RawMessage(raw), params, fold, &p)
}

func TestDecodeTakes(t *testing.T) {
	t.Parallel()
	zero := 0
	base := everything{Word: "red", Count: 10}
	with := func(change func(*everything)) everything {
		e := base
		change(&e)
		return e
	}
	for _, test := range []struct {
		name, raw string
		want      everything
	}{
		{"nothing at all", ``, base},
		{"no keys", `{}`, base},
		{"white space around", " \n{ } \n", base},
		{"null leaves out", `{"word":null,"count":null,"yes":null,"maybe":null,"list":null}`, base},
		{"a name is folded", `{"agent":"Code_Developer"}`, with(func(e *everything) { e.Agent = "code_developer" })},
		{"a value over its default", `{"word":"green","count":1}`,
			with(func(e *everything) { e.Word, e.Count = "green", 1 })},
		{"bounds are part of what is allowed", `{"text":"ab","count":1000,"ratio":1.5}`,
			with(func(e *everything) { e.Text, e.Count, e.Ratio = "ab", 1000, 1.5 })},
		{"whole numbers with a point or an exponent", `{"count":5.0,"wait_seconds":1.5E1,"maybe":-0.0}`,
			with(func(e *everything) { e.Count, e.Wait, e.Maybe = 5, 15, &zero })},
		{"a pointer tells 0 from absent", `{"maybe":0}`, with(func(e *everything) { e.Maybe = &zero })},
		{"a payload digit for digit", `{"any":{"n":1.10,"big":12345678901234567890}}`,
			with(func(e *everything) { e.Any = json.RawMessage(`{"n":1.10,"big":12345678901234567890}`) })},
		{"a payload that is null", `{"any":null}`, with(func(e *everything) { e.Any = json.RawMessage(`null`) })},
		{"seconds", `{"wait_seconds":60}`, with(func(e *everything) { e.Wait = 60 })},
		{"a list", `{"list":["a","b"]}`, with(func(e *everything) { e.List = []string{"a", "b"} })},
		{"a list of names", `{"agents":["A","b"]}`, with(func(e *everything) { e.Element = []string{"a", "b"} })},
		{"a pair of surrogates", `{"text":"\ud83d\ude00"}`, with(func(e *everything) { e.Text = "😀" })},
		{"the replacement character itself", `{"text":"\ufffd"}`, with(func(e *everything) { e.Text = "\ufffd" })},
		{"a backslash before what looks like an escape", `{"text":"\ufffd\\ud8"}`,
			with(func(e *everything) { e.Text = "\ufffd" + `\ud8` })},
		{"keys in another case", `{"COUNT":7,"Yes":true}`, with(func(e *everything) { e.Count, e.Yes = 7, true })},
	} {
		got, err := decodeInto[everything](t, test.raw, true)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
		} else if !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v; want %+v", test.name, got, test.want)
		}
	}
}

// TestDecodeRefuses checks that each error names what is invalid, and the bound.
func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, raw, says string }{
		{"an unknown key", `{"cuont":1}`, `"cuont". Did you mean count`},
		{"an unknown key far from all", `{"zzzzzzzz":1}`, "Use one of: agent, word"},
		{"a key twice", `{"count":1,"count":1}`, "count: given twice"},
		{"a key twice in two cases", `{"count":1,"COUNT":1}`, "count: given twice"},
		{"trailing data", `{} {}`, "with nothing after it"},
		{"a list", `[]`, "must be a JSON object"},
		{"a text", `"x"`, "must be a JSON object"},
		{"a number beyond all bounds", strings.Repeat("9", 1000), "must be a JSON object"},
		{"half an object", `{"count":`, "unexpected end"},
		{"no JSON", `{count:1}`, "must be valid JSON"},
		{"invalid UTF-8", "{\"text\":\"a\xff\"}", "must be valid UTF-8"},
		{"a NUL byte", "{\"text\":\"a\x00\"}", "NUL"},
		{"an escaped NUL", `{"text":"a\u0000b"}`, "text: must not contain a NUL"},
		{"half a surrogate pair", `{"text":"a\ud800"}`, "text: the text contains half"},
		{"half a surrogate pair behind what looks like an escape", `{"text":"\\ufffd \ud800"}`, "text: the text contains half"},
		{"half a surrogate pair deep in a value", `{"any":{"a":[1,{"b":"\ud83d"}]}}`, "any: the text contains half"},
		{"half a surrogate pair in a key of a value", `{"any":{"a":[{"\ud83d":1}]}}`, "any: the text contains half"},
		{"half a surrogate pair in a list", `{"list":["a","\ud83d"]}`, "list: the text contains half"},
		{"half a surrogate pair in a key", `{"text\ud83d":"a"}`, "unknown parameter"},
		{"the other half first", `{"text":"\ude00\ud83d"}`, "text: the text contains half"},
		{"a number for a text", `{"text":1}`, "text: must be a string, but is 1"},
		{"a text for a number", `{"count":"1"}`, `count: must be a whole number (1 to 1000), but is "1"`},
		{"a number with an exponent beyond all bounds", `{"count":1e999}`, "count: must be from 1 to 1000, but is 1e999"},
		{"a number with a point that 64 bits do not have exactly", `{"count":9007199254740993.0}`, "must be from 1 to 1000"},
		{"a small fraction for a whole number", `{"count":1.0001e3}`, "count: must be a whole number (1 to 1000), but is 1.0001e3"},
		{"a fraction for a whole number", `{"count":1.5}`, "count: must be a whole number (1 to 1000), but is 1.5"},
		{"too low", `{"count":0}`, "count: must be from 1 to 1000, but is 0"},
		{"too high", `{"count":1001}`, "count: must be from 1 to 1000, but is 1001"},
		{"higher than a computer counts", `{"count":99999999999999999999}`,
			"count: must be from 1 to 1000, but is 99999999999999999999"},
		{"a default does not hide a bound", `{"word":"blue"}`, `word: must be one of red, green, but is "blue"`},
		{"a ratio too high", `{"ratio":1.6}`, "at most 1.5"},
		{"a text for a switch", `{"yes":"true"}`, "true or false"},
		{"a text too short", `{"text":"a"}`, "must have 2 to 8 bytes, but has 1"},
		{"a text too long in bytes", `{"text":"ÄÖÜÄÖ"}`, "but has 10"},
		{"an empty id", `{"id":""}`, "must have 1 to 256 bytes"},
		{"a text for a list", `{"list":"a"}`, "a list of strings"},
		{"null within a list", `{"list":["a",null]}`, "list: must be a string, but is null"},
		{"too many elements", `{"list":["a","b","c"]}`, "but has 3"},
		{"a bad name within a list", `{"agents":["a","../x"]}`, "agents:"},
		{"a name with SQL in it", `{"agent":"x'; DROP TABLE"}`, "is not a valid name"},
		{"a name that is a path", `{"agent":"../x"}`, "is not a valid name"},
		{"a name of a megabyte", `{"agent":"` + strings.Repeat("a", 1<<20) + `"}`, "has 1048576 bytes"},
		{"a payload too large", `{"any":"` + strings.Repeat("a", 40) + `"}`, "but has 42"},
		{"params too large", `{"any":"` + strings.Repeat("a", maxParams) + `"}`, "at most"},
		{"a key of a megabyte", `{"` + strings.Repeat("a", 1<<20) + `":1}`, "unknown parameter"},
	} {
		_, err := decodeInto[everything](t, test.raw, true)
		want.Code(t, err, orchestrator.InvalidParams)
		if err != nil && (!strings.Contains(err.Error(), test.says) || len(err.Error()) > 600) {
			t.Errorf("%s: %.700v; want it to say %q", test.name, err, test.says)
		}
	}
}

func TestDecodeKeepsCaseApartWithoutFolding(t *testing.T) {
	t.Parallel()
	_, err := decodeInto[everything](t, `{"COUNT":1}`, false)
	want.Code(t, err, orchestrator.InvalidParams)
	if err != nil && !strings.Contains(err.Error(), "Did you mean count?") {
		t.Errorf("%v; want the right spelling", err)
	}
}

func TestDecodeMissesWhatIsRequired(t *testing.T) {
	t.Parallel()
	type needy struct {
		Name string `json:"name" desc:"a name that must be there"`
	}
	for _, raw := range []string{``, `{}`, `{"name":null}`} {
		_, err := decodeInto[needy](t, raw, true)
		want.Code(t, err, orchestrator.InvalidParams)
		if err != nil && !strings.Contains(err.Error(), "name: missing (a name that must be there)") {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

// decodeSeeds holds parameters of every kind, valid and invalid.
var decodeSeeds = []string{
	``, `{}`, `{"count":1,"COUNT":2}`, `{"text":"\ud800"}`, `{"text":"\u0000"}`, `{"any":[1,2,{"a":null}]}`,
	`{"list":["a",null]}`,
	`{"agent":"Code_Developer","yes":true,"ratio":1e-3,"wait_seconds":7}`, `{} x`, `[`, "{\"text\":\"\xff\"}",
	`{"count":9223372036854775808}`,
	`{"text":"\\\ud83d\ude00"}`, `{"maybe":null,"id":"msg-1"}`,
}

// checkDecode checks that decoding any input ends without a panic. Invalid input is refused with invalid_params and a
// message that can be shown, and accepted input is valid text that decodes to the same values again.
func checkDecode(t *testing.T, raw string, fold bool) (malformed bool) {
	got, err := decodeInto[everything](t, raw, fold)
	if err != nil {
		want.Code(t, err, orchestrator.InvalidParams)
		if says := err.Error(); says == "" || len(says) > 1000 || !utf8.ValidString(says) {
			t.Errorf("%q: the error says %.1500q", raw, says)
		}
		return true
	}
	if !utf8.ValidString(got.Text) || strings.ContainsRune(got.Text, 0) {
		t.Errorf("%q gave the text %q", raw, got.Text)
	}
	again, err := orchestrator.JSON(got)
	if err != nil {
		t.Fatalf("%q decodes to what is no JSON: %v", raw, err)
	}
	back, err := decodeInto[everything](t, string(again), false)
	if err != nil {
		t.Fatalf("%q gave %s, which is refused: %v", raw, again, err)
	}
	third, err := orchestrator.JSON(back)
	if err != nil || string(third) != string(again) {
		t.Errorf("%q gave %s, then %s", raw, again, third)
	}
	return false
}

func FuzzDecode(f *testing.F) {
	for _, seed := range decodeSeeds {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, raw string, fold bool) { checkDecode(t, raw, fold) })
}

// TestMalformedParams replays the stored inputs of FuzzDecode.
func TestMalformedParams(t *testing.T) {
	t.Parallel()
	corpus.Target{
		Name: "FuzzDecode", Package: "mailroom/commands/parameter", Seeds: decodeSeeds,
		Tokens: []string{`"`, `{`, `]`, `,`, `:`, `\`, `null`, `1e999`, `\u0000`, `\udc00`, "\xff", "\x00", `"count":`},
		Check: func(t *testing.T, raw string) bool {
			folded := checkDecode(t, raw, true)
			return checkDecode(t, raw, false) && folded
		},
	}.Replay(t, 2500)
}

// TestPrivateAndCharacters checks that no error contains a private value, and that bounds in characters count
// characters.
func TestPrivateAndCharacters(t *testing.T) {
	t.Parallel()
	type secret struct {
		Text string   `json:"text,omitempty" desc:"a text" check:"private,characters,min=2,max=4"`
		List []string `json:"list,omitempty" desc:"a list" check:"private,max=2"`
		Word string   `json:"word,omitempty" desc:"one of some" check:"oneof=red|green"`
		Name string   `json:"name,omitempty" desc:"an agent" check:"agent"`
		Flag bool     `json:"flag,omitempty" desc:"a switch"`
		TTL  Seconds  `json:"ttl,omitempty" desc:"a time" check:"max=9"`
	}
	for raw, says := range map[string]string{
		`{"text":{"canary":1}}`:         "text: must be a string",
		`{"text":"canary"}`:             "text: must have 2 to 4 characters, but has 6",
		`{"text":"ü"}`:                  "text: must have 2 to 4 characters, but has 1",
		`{"text":"canary\ud800"}`:       `text: the text contains half of a surrogate pair, which is not a valid character. The other half of \ud800 is missing. Cut text between two characters, not within an emoji, or replace the half with \ufffd`,
		`{"list":"canary"}`:             "list: must be a list of strings",
		`{"list":[["canary"]]}`:         "list: must be a string",
		`{"list":["canary","b","c"]}`:   "list: must have at most 2 elements, but has 3",
		`{"word":"canary"}`:             "word: must be one of red, green",
		`{"name":"a canary"}`:           "name: must be a name that starts with a letter, followed by letters, digits, '_', or '-'",
		`{"flag":"canary"}`:             "flag: must be true or false",
		`{"ttl":4711}`:                  "ttl: must be at most 9 seconds",
		`{"ttl":47114711471147114711}`:  "ttl: must be at most 9 seconds",
		`{"Is the canary ill?":1}`:      "unknown parameter. Use one of: text, list, word, name, flag, ttl",
		`{"text":"canary","list":["a"`:  "the parameters must be valid JSON: unexpected end",
		`{"text":"canary","text":"ab"}`: "text: given twice",
	} {
		_, err := decodeInto[secret](t, raw, false)
		if err == nil || err.Error() != says {
			t.Errorf("%s: %v; want %s", raw, err, says)
		}
	}
	if got, err := decodeInto[secret](t, `{"text":"üüüü"}`, false); err != nil || got.Text != "üüüü" {
		t.Errorf("four characters: %q, %v", got.Text, err)
	}
}
