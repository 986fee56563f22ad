package mail

import (
	"fmt"

	"mailroom/commands"
	"mailroom/orchestrator"
)

// Part describes which part of a message's text is shown.
type Part struct {
	Says       string `json:"part,omitempty"`        // which part it is, and how to read the next one
	Characters int    `json:"characters,omitempty"`  // length of the whole text, counted by commands.Units
	NextOffset int    `json:"next_offset,omitempty"` // where the next part begins; 0 for the last part
}

// partOf returns the part of a text that begins at an offset and has as much text as a host shows. An offset within a
// character means the start of that character. An offset past the end is the error invalid_params.
func partOf(text, id string, offset int) (Part, string, error) {
	n := commands.Units(text)
	if offset >= n && offset > 0 {
		return Part{}, "",
			orchestrator.InvalidParam("offset", "%d is past the end of the message: offsets start at 0, and the message has %d characters",
				offset, n).
				WithHint("There is no more text to read. To start again, use offset 0")
	}
	before := commands.FirstUnits(text, offset)
	part := commands.FirstPart(text[len(before):], commands.MaxPart)
	from := commands.Units(before)
	next := from + commands.Units(part)
	p := Part{Characters: n}
	switch {
	case n == 0:
		p.Says = "the message has 0 characters"
	case next == n:
		p.Says = fmt.Sprintf("characters %d to %d of %d; this is the end", from, n-1, n)
	default:
		p.NextOffset = next
		p.Says = commands.NextPart(from, next, n, id)
	}
	return p, part, nil
}
