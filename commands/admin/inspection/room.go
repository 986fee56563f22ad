package inspection

import (
	"context"
	"fmt"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator/cost"
	"mailroom/orchestrator/overview"
)

// RoomResult lists the agents, and who wrote to whom.
type RoomResult struct{ overview.Room }

var roomCommand = commands.Define(vocabulary, "room", room)

func room(ctx context.Context, env commands.Env, _ struct{}) (RoomResult, error) {
	room, err := overview.LookAround(ctx, env.Ledger)
	return RoomResult{room}, err
}

// Text writes a table of agents, and one of pairs.
func (r RoomResult) Text(w *terminal.Text) {
	terminal.TableOf(w, []string{"AGENT", "STATE", "HEARD", "PENDING", "UNREAD", "OLDEST", "FAILED"}, r.Agents,
		func(m *overview.Member) []string {
			name := m.Name
			if !m.Known {
				name += " (unknown)"
			}
			return []string{name, string(m.State), w.When(m.HeardAt), fmt.Sprint(m.Pending), fmt.Sprint(m.Unread),
				w.When(m.OldestAt), fmt.Sprint(m.Failed)}
		})
	if len(r.Pairs) == 0 {
		w.Printf("\nNo agent has sent a message since %s.\n", w.When(r.Since))
		return
	}
	w.Printf("\nSince %s:\n", w.When(r.Since))
	terminal.TableOf(w, []string{"FROM", "TO", "MESSAGES", "FAILED", "RETRY", "PENDING", "UNREAD", "LAST"}, r.Pairs,
		func(p *overview.Pair) []string {
			return []string{p.Sender, p.Recipient, fmt.Sprint(p.Messages), fmt.Sprint(p.Failed), fmt.Sprint(p.Retry),
				fmt.Sprint(p.Pending), fmt.Sprint(p.Unread), w.When(p.LastAt)}
		})
	if r.Cut {
		w.Printf("There were more messages. The table counts only the newest.\n")
	}
	if len(r.Costs) == 0 {
		return
	}
	w.Printf("\nMessage text added to model contexts in this clock hour and the previous one:\n")
	terminal.TableOf(w, []string{"FROM", "TO", "MESSAGES", "BYTES", "TOKENS"}, r.Costs, func(p *cost.Pair) []string {
		return []string{p.Sender, p.Recipient, fmt.Sprint(p.Messages), fmt.Sprint(p.Bytes), fmt.Sprint(p.Tokens)}
	})
}
