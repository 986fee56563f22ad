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

// Finding is one result of a check: all is well, a note, or a problem.
type Finding struct {
	Code    string   `json:"code"`              // what was checked
	About   string   `json:"about,omitempty"`   // which agent, host, device or schedule, if the check covers several
	Level   string   `json:"level"`             // ok, note or problem
	Says    string   `json:"says"`              // one sentence
	Because string   `json:"because,omitempty"` // a second sentence: the reason
	Do      string   `json:"do,omitempty"`      // what to do about it
	Now     bool     `json:"now,omitempty"`     // whether Now returns it, too
	Unknown bool     `json:"unknown,omitempty"` // whether nobody has the name in About
	Count   int64    `json:"count,omitempty"`   // of messages or questions
	From    []string `json:"from,omitempty"`    // who sent the messages or asked the questions
	Since   string   `json:"since,omitempty"`   // since when, as far as known
	ID      string   `json:"id,omitempty"`      // of the oldest message or question
	// Error is the error of the newest failed message; messages.DeadLetterFilter selects the messages by it.
	Error string `json:"error,omitempty"`
}

// Title returns what was checked, in words.
func (f *Finding) Title() string {
	if f.About == "" {
		return f.Code
	}
	return f.Code + " " + f.About
}

// Text returns what was found, in one or two sentences.
func (f *Finding) Text() string {
	if f.Because == "" {
		return f.Says
	}
	return f.Says + ": " + f.Because
}

// Findings are the results of an examination, in the order of its checks.
type Findings []Finding

// Report adds a finding about the whole. Its signature is that of store.Report.
func (f *Findings) Report(code, level, says, do string) { f.ReportOf(code, "", level, says, do) }

// ReportOf adds a finding about one of several things.
func (f *Findings) ReportOf(code, about, level, says, do string) {
	*f = append(*f, Finding{Code: code, About: about, Level: level, Says: says, Do: do})
}

// Fail adds an error that prevented a check, with its hint as advice. about is as in Finding.
func (f *Findings) Fail(code, about string, err error) {
	says, do := err.Error(), ""
	if own, ok := errors.AsType[*orchestrator.Error](err); ok {
		says, do = own.WithoutHint(), own.Hint
	}
	f.ReportOf(code, about, Problem, says, do)
}

// Healthy reports whether no finding is a problem.
func (f Findings) Healthy() bool {
	return !slices.ContainsFunc(f, func(one Finding) bool { return one.Level == Problem })
}
