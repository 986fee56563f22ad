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

// Agent hosts cut the long answer of a tool before their models see it: Codex leaves 12,000 bytes of it, the others
// more.
const (
	maxShown = 11_000 // bytes of JSON that a model is given whole
	MaxPart  = 8000   // bytes of it that the text of a part takes; the rest is for what stands around the text
	minPart  = 500
)

// ShownWhole reports whether hosts show their models a whole answer, which also may be a ToolTexter.
func ShownWhole(answer any) bool {
	if texter, ok := answer.(ToolTexter); ok && len(texter.ToolText()) > maxShown {
		return false
	}
	whole, err := orchestrator.JSON(answer)
	return err == nil && len(whole) <= maxShown
}

// Most returns how many of n things a command is to put into its answer: all n, but for a model as many as it is shown,
// and at least one if there is any. answer makes the answer with the first k of them.
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

// Shown returns those of the messages, from the first on, that a model is shown in one answer; all for any other
// reader. answer makes the answer with some of them. A message that is too long by itself is cut, as in a hook, and
// says how the next part is read.
func (e Env) Shown(ms []orchestrator.Message, answer func(ms []orchestrator.Message) any) []orchestrator.Message {
	ms = ms[:e.fitting(ms, answer)]
	if !e.Call.Model || len(ms) != 1 || ms[0].Seq == 0 || fit(ms, answer) {
		// what somebody wrote into the inbox by hand could not be read on
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

// Fits is Shown for reading.Options and its like: nil takes all.
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

// fit reports whether the answer with all of these messages is shown whole. It is not made of more than can be: no
// answer is shorter than a sixth of the payloads in it, which may be all escapes such as \u0041.
func fit(ms []orchestrator.Message, answer func(ms []orchestrator.Message) any) bool {
	size := 0
	for i := range ms {
		size += len(ms[i].Payload)
	}
	return size <= 6*maxShown && ShownWhole(answer(ms))
}

// run runs the handler of a command. Where a model reads the answer of a list that marks nothing, and it is longer than
// hosts show, the handler runs again with a lower limit, and so says itself that there are more and how to go on.
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
			break // it is long by what no limit governs
		}
		last = limit
		if json.Unmarshal(raw, &params) != nil || params == nil { // none were given
			params = map[string]json.RawMessage{}
		}
		params["limit"] = json.RawMessage(strconv.Itoa(limit))
		if raw, err = orchestrator.Unmended(params); err == nil {
			result, err = d.handler.run(ctx, env, d, raw)
		}
	}
	return result, err
}

// longestList returns how many elements the longest list of an answer has, and how many bytes the answer.
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

// Rest says to a model that there is more than one answer shows, and how to go on; "" if there is not, or for any other
// reader.
func (e Env) Rest(more bool, how string) string {
	if !more || !e.Call.Model {
		return ""
	}
	return "there is more to read: " + how
}

// Room is as long as what may stand beside messages in an answer: their thread, what was sent on the way.
var Room = strings.Repeat("x", 1500)

// Some returns as many names as an answer has Room for, and how many it leaves out.
func Some(names []string) (some []string, left int) {
	const most = 15
	some = names[:min(most, len(names))]
	return some, len(names) - len(some)
}

// Place reads the parameter continue, the number of a row that an earlier answer gave; 0 if it is left out.
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

// beginning returns a message that says no more than the beginning of what it said, size bytes as JSON, and how the
// next part is read.
func beginning(m *orchestrator.Message, said string, size int) orchestrator.Message {
	start := FirstPart(said, size)
	text := start + "\n[" + NextPart(0, Units(start), Units(said), m.ID) + "]"
	short := *m
	short.Summary, short.Context, short.Origin = "", "", ""
	short.Payload = orchestrator.JSONString(text)
	if mentions := ContentOf(m).Mentions; mentions != nil { // whom a post mentions belongs to it
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

// FirstPart returns the beginning of a text that is Harmless, of at most size bytes as JSON. No character is cut
// through.
func FirstPart(text string, size int) string {
	for i, r := range text {
		if size -= written(r); size < 0 {
			return text[:i]
		}
	}
	return text
}

// written returns how many bytes JSON needs for a character that Harmless leaves.
func written(r rune) int {
	switch r {
	case '"', '\\', '\n', '\t':
		return 2
	case '\u2028', '\u2029':
		return len(`\u2028`)
	}
	return utf8.RuneLen(r)
}
