package roster

import (
	"context"
	"fmt"
	"strings"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/sessions"
)

// AgentNameParams names one agent.
type AgentNameParams struct {
	Name string `json:"name" desc:"name of the agent" check:"agent" arg:"1"`
}

// AgentShowParams names one agent, and selects what to show.
type AgentShowParams struct {
	Name   string `json:"name" desc:"name of the agent" check:"agent" arg:"1"`
	Lately bool   `json:"lately,omitempty" desc:"also show who wrote to it, and to whom it wrote, in the newest messages; for other agents, this needs admin rights"`
}

// AgentShowResult is one agent and its backlog.
type AgentShowResult struct {
	Agent   overview.Standing         `json:"agent"`
	Backlog overview.RecipientBacklog `json:"backlog"`
	Lately  *messages.Lately          `json:"lately,omitempty"`
}

var agentShowCommand = commands.Define(vocabulary, "agent show", agentShow)

func agentShow(ctx context.Context, env commands.Env, p AgentShowParams) (AgentShowResult, error) {
	agent, err := overview.StandingOf(ctx, env.Ledger, p.Name)
	if err != nil {
		return AgentShowResult{}, err
	}
	if p.Lately && !env.Caller.Admin && env.Caller.Name != agent.Name {
		return AgentShowResult{},
			orchestrator.Errorf(orchestrator.PermissionDenied, "only administrators can see who wrote to %s, and to whom it wrote",
				agent.Name).WithHint("Omit the parameter `lately`")
	}
	conceal(env.Caller, &agent)
	r := AgentShowResult{Backlog: *agent.Backlog}
	agent.Backlog = nil
	r.Agent = agent
	if p.Lately {
		lately, err := messages.LatelyOf(ctx, env.Ledger, agent.Name)
		r.Lately = &lately
		return r, err
	}
	return r, nil
}

// Text writes one line per field. It leaves out fields that are not set.
func (r AgentShowResult) Text(w *terminal.Text) {
	a, b := r.Agent, r.Backlog
	plan, private, output := "", "", ""
	if a.PlanModeRequired {
		plan = "required"
	}
	if a.AllowPrivate {
		private = "allowed"
	}
	if a.Run != nil {
		output = a.Run.Output
	}
	w.Fields(
		[2]string{"agent", a.Name}, [2]string{"role", a.Role}, [2]string{"status", standing(w, &a)},
		[2]string{"deliver", a.Deliver},
		[2]string{"disabled", a.Disabled}, [2]string{"fallback", a.Fallback},
		[2]string{"timeout", set(a.TimeoutSeconds, " s")},
		[2]string{"batch", set(a.Batch, "")}, [2]string{"concurrency", set(a.Concurrency, "")},
		[2]string{"private addresses", private},
		[2]string{"start", a.StartCommand}, [2]string{"folder", a.Folder},
		[2]string{"environment", strings.ReplaceAll(a.PassEnv, ",", ", ")}, [2]string{"host", a.Host},
		[2]string{"last run", lastRun(w, a.Run)}, [2]string{"its output", output},
		[2]string{"silent after", set(a.SilentAfter, " s")}, [2]string{"plan mode", plan},
		[2]string{"wake", strings.ReplaceAll(a.Wake, ",", ", ")},
		[2]string{"groups", strings.Join(a.Groups, ", ")},
		[2]string{"registered by", a.RegisteredBy}, [2]string{"since", a.CreatedAt},
		[2]string{"backlog", fmt.Sprintf("%d pending, %d retry, %d unread", b.Pending, b.Retry, b.Unread)},
		[2]string{"oldest", w.When(b.OldestAt)}, [2]string{"oldest unread", w.When(b.UnreadSince)},
	)
	r.textLately(w)
}

// textLately writes who wrote to the agent, and to whom the agent wrote.
func (r AgentShowResult) textLately(w *terminal.Text) {
	if r.Lately == nil {
		return
	}
	for _, of := range []struct {
		heading string
		peers   []messages.Peer
	}{{"SENDER", r.Lately.Senders}, {"RECIPIENT", r.Lately.Recipients}} {
		if len(of.peers) > 0 {
			w.Printf("\n")
			terminal.TableOf(w, []string{of.heading, "MESSAGES", "FAILED", "LAST"}, of.peers,
				func(p *messages.Peer) []string {
					return []string{p.Agent, fmt.Sprint(p.Messages), fmt.Sprint(p.Failed), w.When(p.LastAt)}
				})
		}
	}
	w.Printf("\n%s\n",
		w.Paint(terminal.Dim, "These numbers cover the newest "+orchestrator.Plural(r.Lately.Among, "message")+" of all agents."))
}

// set formats a number with its unit. It returns "" for 0.
func set(n int, unit string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n) + unit
}

// runState describes in a few words the last run of an agent's start command.
func runState(w *terminal.Text, run *sessions.Run) string {
	switch {
	case run == nil:
		return ""
	case run.State == sessions.Running:
		return "running, " + w.When(run.Since)
	}
	return strings.ReplaceAll(string(run.State), "_", " ") + ", " + w.When(run.Since)
}

// lastRun describes in a sentence the last run of an agent's start command.
func lastRun(w *terminal.Text, run *sessions.Run) string {
	if run == nil {
		return ""
	}
	text := runState(w, run)
	if run.PID > 0 && run.State == sessions.Running {
		text += fmt.Sprintf(", pid %d", run.PID)
	}
	if run.Outcome != "" {
		text += ": " + run.Outcome
	}
	text += "; started " + times(run.Starts)
	if run.Failures > 1 {
		text += ", failed " + times(run.Failures) + " in a row"
	}
	if run.NextAt != "" {
		text += ", next start " + w.When(run.NextAt)
	}
	return text
}

func times(n int64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
