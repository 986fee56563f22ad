package commands

import (
	"mailroom/commands/terminal"
	"mailroom/orchestrator/overview"
)

// Examined is the result of a command that looks for problems.
type Examined struct {
	Healthy  bool              `json:"healthy"` // no finding is a problem
	Findings overview.Findings `json:"findings"`
}

// NewExamined returns the findings as a result.
func NewExamined(found overview.Findings) Examined { return Examined{found.Healthy(), found} }

// ExitStatus returns 1 if there is a problem, and 0 otherwise.
func (r Examined) ExitStatus() int {
	if r.Healthy {
		return 0
	}
	return 1
}

// Text writes one line per finding, and below it what to do.
func (r Examined) Text(w *terminal.Text) {
	for i := range r.Findings {
		f := &r.Findings[i]
		w.Block(w.Status(f.Level)+terminal.Painted("  "+terminal.Inline(f.Title())+": "), "    ", f.Text())
		if f.Do != "" {
			w.Body("    ", f.Do)
		}
	}
}
