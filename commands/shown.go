package commands

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"mailroom/commands/parameter"
	"mailroom/orchestrator"
)

// Agent hosts truncate a long answer of a tool before their models see it: Codex keeps 12,000 bytes, other hosts keep
// more.
const (
	maxShown = 11_000 // bytes of JSON that a model always sees whole
	MaxPart  = 8000   // bytes of JSON for the text of a part; the rest is for what surrounds the text
	minPart  = 500
)

// ShownWhole reports whether hosts show their models the whole answer, including its text if it is a ToolTexter.
func ShownWhole(answer any) bool {
	if texter, ok := answer.(ToolTexter); ok && len(texter.ToolText()) > maxShown {
		return false
	}
	whole, err := orchestrator.JSON(answer)
	return err == nil && len(whole) <= maxShown
}

// Most returns how many of n elements a command should put into its answer: all n, or, for a model, as many as its
// host shows, and at least one if there are any. answer builds the answer with the first k elements.
func (e Env) Most(n int, answer func(k int) any) int {
	if !e.Call.Model {
		return n
	}
	for k := 1; k < n; k++ {
		if !ShownWhole(answer(k + 1)) {
			return k
		}
	}
	return n
}

// Shown returns the leading messages that one answer shows to a model, and all messages for any other reader. answer
// builds the answer with some messages. A single message that is too long is cut, as in a hook, and then contains how
// to read its next part.
func (e Env) Shown(ms []orchestrator.Message, answer func(ms []orchestrator.Message) any) []orchestrator.Message {
	ms = ms[:e.fitting(ms, answer)]
	if !e.Call.Model || len(ms) != 1 || ms[0].Seq == 0 || fit(ms, answer) {
		// a message that somebody inserted into the inbox by hand has no Seq, so its next part could not be read
		return ms
	}
	said, cut := Told(&ms[0]), ms
	for size := MaxPart; size >= minPart; size /= 2 {
		if cut = []orchestrator.Message{beginning(&ms[0], said, size)}; ShownWhole(answer(cut)) {
			break
		}
	}
	return cut
}

// Fits returns a function for reading.Options and similar types that returns how many messages Shown would keep. A
// nil function keeps all.
func (e Env) Fits(answer func(ms []orchestrator.Message) any) func(ms []orchestrator.Message) int {
	if !e.Call.Model {
		return nil
	}
	return func(ms []orchestrator.Message) int { return e.fitting(ms, answer) }
}

// fitting returns how many of the messages are shown in one answer.
func (e Env) fitting(ms []orchestrator.Message, answer func(ms []orchestrator.Message) any) int {
	if !e.Call.Model {
		return len(ms)
	}
	n := min(1, len(ms))
	for n < len(ms) && fit(ms[:n+1], answer) {
		n++
	}
	return n
}

// fit reports whether the answer with all of these messages is shown whole. It does not build the answer if the
// payloads rule that out: no answer is shorter than a sixth of its payloads, which may consist of escapes such as
// \u0041.
func fit(ms []orchestrator.Message, answer func(ms []orchestrator.Message) any) bool {
	size := 0
	for i := range ms {
		size += len(ms[i].Payload)
	}
	return size <= 6*maxShown && ShownWhole(answer(ms))
}

// run runs the handler of a command. If a model reads the answer, the command only reads and has a limit, and the
// answer is longer than hosts show, the handler runs again with a lower limit. That answer states that there is more
// and how to continue.
func (d *Definition) run(ctx context.Context, env Env, raw json.RawMessage) (any, error) {
	result, err := d.handler.run(ctx, env, d, raw)
	if !env.Call.Model || !d.Card().OnlyReads() || !slices.ContainsFunc(d.Params(), func(p parameter.Param) bool { return p.Name == "limit" }) {
		return result, err
	}
	for last := math.MaxInt; err == nil && !ShownWhole(result); {
		var params map[string]json.RawMessage
		n, size := longestList(result)
		limit := max(1, min(n-1, n*maxShown/size))
		if n < 2 || limit >= last {
			break // something other than the limit makes the answer long
		}
		last = limit
		if json.Unmarshal(raw, &params) != nil || params == nil { // no parameters were given
			params = map[string]json.RawMessage{}
		}
		params["limit"] = json.RawMessage(strconv.Itoa(limit))
		if raw, err = orchestrator.Unmended(params); err == nil {
			result, err = d.handler.run(ctx, env, d, raw)
		}
	}
	return result, err
}

// longestList returns the number of elements in the longest list of an answer, and the size of the answer in bytes.
func longestList(answer any) (n, size int) {
	text, err := orchestrator.JSON(answer)
	var fields map[string]json.RawMessage
	if err != nil || json.Unmarshal(text, &fields) != nil {
		return 0, 1
	}
	for _, value := range fields {
		var list []json.RawMessage
		if json.Unmarshal(value, &list) == nil {
			n = max(n, len(list))
		}
	}
	return n, len(text)
}

// Rest returns a note for a model that there is more than one answer shows, and how to continue. It returns "" if
// there is no more, or for any other reader.
func (e Env) Rest(more bool, how string) string {
	if !more || !e.Call.Model {
		return ""
	}
	return "there is more to read: " + how
}

// Room is a text as long as what may accompany messages in an answer, such as their thread and what was sent
// meanwhile.
var Room = strings.Repeat("x", 1500)

// Some returns as many names as fit into Room, and the number of names that it leaves out.
func Some(names []string) (some []string, left int) {
	const most = 15
	some = names[:min(most, len(names))]
	return some, len(names) - len(some)
}

// Place parses the parameter continue, a row number from an earlier answer. It returns 0 if the parameter is left
// out.
func Place(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, orchestrator.InvalidParam("continue", "must be a value from an earlier answer, but is %q", orchestrator.Clip(text)).
			WithHint("Use the value of `continue` from the previous answer, and keep all other parameters the same")
	}
	return n, nil
}

// beginning returns a copy of a message with only the beginning of its text, size bytes as JSON, followed by how to
// read the next part.
func beginning(m *orchestrator.Message, said string, size int) orchestrator.Message {
	start := FirstPart(said, size)
	text := start + "\n[" + NextPart(0, Units(start), Units(said), m.ID) + "]"
	short := *m
	short.Summary, short.Context, short.Origin = "", "", ""
	short.Payload = orchestrator.JSONString(text)
	if mentions := ContentOf(m).Mentions; mentions != nil { // the mentions belong to a post
		body, err := orchestrator.JSON(struct {
			Content  string   `json:"content"`
			Mentions []string `json:"mentions"`
		}{text, mentions})
		if err == nil {
			short.Payload = body
		}
	}
	return short
}

// FirstPart returns the beginning of a text processed by Harmless, at most size bytes as JSON. It never splits a
// character.
func FirstPart(text string, size int) string {
	for i, r := range text {
		if size -= written(r); size < 0 {
			return text[:i]
		}
	}
	return text
}

// written returns how many bytes JSON needs for a character in a text processed by Harmless.
func written(r rune) int {
	switch r {
	case '"', '\\', '\n', '\t':
		return 2
	case '\u2028', '\u2029':
		return len(`\u2028`)
	}
	return utf8.RuneLen(r)
}
