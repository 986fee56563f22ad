package commands

import (
	"mailroom/commands/terminal"
	"mailroom/orchestrator/overview"
)

// Examined is the result of a command that looks for what is wrong.
type Examined struct {
	Healthy  bool              `json:"healthy"` // no finding is a problem
	Findings overview.Findings `json:"findings"`
}

// NewExamined returns these findings as a result.
func NewExamined(found overview.Findings) Examined { return Examined{found.Healthy(), found} }

// ExitStatus is 1 if there is a problem.
func (r Examined) ExitStatus() int {
	if r.Healthy {
		return 0
	}
	return 1
}

// Text shows one line per finding, and below it what to do.
func (r Examined) Text(w *terminal.Text) {
	for i := range r.Findings {
		f := &r.Findings[i]
		w.Block(w.Status(f.Level)+terminal.Painted("  "+terminal.Inline(f.Title())+": "), "    ", f.Text())
		if f.Do != "" {
			w.Body("    ", f.Do)
		}
	}
}
