package overview

import (
	"errors"
	"slices"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// Levels of findings.
const (
	Fine    = store.Fine
	Note    = store.Note
	Problem = store.Problem
)

// Finding is what one check found: that all is well, something to know, or a problem.
type Finding struct {
	Code    string   `json:"code"`              // what was checked
	About   string   `json:"about,omitempty"`   // of several of them, which one: an agent, a host, a device, a schedule
	Level   string   `json:"level"`             // ok, note or problem
	Says    string   `json:"says"`              // one sentence
	Because string   `json:"because,omitempty"` // a second
	Do      string   `json:"do,omitempty"`      // what helps
	Now     bool     `json:"now,omitempty"`     // Now finds it, too
	Unknown bool     `json:"unknown,omitempty"` // nobody has the name that it is about
	Count   int64    `json:"count,omitempty"`   // of messages or questions
	From    []string `json:"from,omitempty"`    // who sent those messages, or asks too
	Since   string   `json:"since,omitempty"`   // since when, as far as that is known
	ID      string   `json:"id,omitempty"`      // of the oldest message or question
	// of the newest message that failed: messages.DeadLetterFilter selects them by it
	Error string `json:"error,omitempty"`
}

// Title is what was checked, in words.
func (f *Finding) Title() string {
	if f.About == "" {
		return f.Code
	}
	return f.Code + " " + f.About
}

// Text is what was found, in one or two sentences.
func (f *Finding) Text() string {
	if f.Because == "" {
		return f.Says
	}
	return f.Says + ": " + f.Because
}

// Findings are what an examination found, in the order of its checks.
type Findings []Finding

// Report adds a finding about the whole. Its signature is that of store.Report.
func (f *Findings) Report(code, level, says, do string) { f.ReportOf(code, "", level, says, do) }

// ReportOf adds a finding about one of several.
func (f *Findings) ReportOf(code, about, level, says, do string) {
	*f = append(*f, Finding{Code: code, About: about, Level: level, Says: says, Do: do})
}

// Fail adds the error that kept a check from being made, and its hint as what helps. about is as in Finding.
func (f *Findings) Fail(code, about string, err error) {
	says, do := err.Error(), ""
	if own, ok := errors.AsType[*orchestrator.Error](err); ok {
		says, do = own.WithoutHint(), own.Hint
	}
	f.ReportOf(code, about, Problem, says, do)
}

// Healthy reports whether none of them is a problem.
func (f Findings) Healthy() bool {
	return !slices.ContainsFunc(f, func(one Finding) bool { return one.Level == Problem })
}
