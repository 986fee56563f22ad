package mail

import (
	"context"
	"fmt"
	"strings"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/threads"
)

// ListThreadsParams selects the threads to list.
type ListThreadsParams struct {
	Status string `json:"status,omitempty" desc:"only open or only closed threads" check:"oneof=open|closed"`
	Limit  int    `json:"limit,omitempty" desc:"maximum number of threads" check:"min=1,max=200" default:"50"`
	Agent  string `json:"agent,omitempty" desc:"agent that takes part in the threads" check:"agent"`

	All      bool   `json:"all,omitempty" desc:"threads of all agents; for administrators"`
	Search   string `json:"search,omitempty" desc:"only threads with this text in the name; requires the parameter all" check:"max=256"`
	Continue string `json:"continue,omitempty" desc:"value of continue in the previous answer" check:"max=256"`
}

// Thread is a thread without its posts.
type Thread struct {
	ThreadID     string   `json:"thread_id"`
	Name         string   `json:"name"`
	SessionID    string   `json:"session_id"`
	Participants []string `json:"participants"` // the creator first, then in order of joining
	Status       string   `json:"status"`       // open or closed
	Summary      string   `json:"summary,omitempty"`
	CreatedAt    string   `json:"created_at"`
	ClosedAt     string   `json:"closed_at,omitempty"`

	// participants left out because the answer would be too long for the model
	ParticipantsLeftOut int `json:"participants_left_out,omitempty"`
}

// shorten removes most of the parts of a thread that could be long.
func (t *Thread) shorten() {
	t.Participants, t.ParticipantsLeftOut = commands.Some(t.Participants)
	t.Summary = commands.FirstUnits(t.Summary, commands.MaxExcerpt)
}

func renderThread(th *threads.Thread) Thread {
	return Thread{
		ThreadID: th.ID, Name: th.Name, SessionID: th.Session, Participants: th.Names(), Status: string(th.Status),
		Summary:   th.Summary,
		CreatedAt: th.CreatedAt, ClosedAt: th.ClosedAt,
	}
}

// OwnThread is a thread as seen by one of its participants.
type OwnThread struct {
	Thread
	Unread   int       `json:"unread"` // at most 1000
	LastPost *LastPost `json:"last_post,omitempty"`
}

// LastPost is the newest post of a thread, with the beginning of its text.
type LastPost struct {
	MessageID string `json:"message_id"`
	Sender    string `json:"sender"`
	CreatedAt string `json:"created_at"`
	Text      string `json:"text"`
}

// ListThreadsResult lists threads. The thread with the newest post comes first.
type ListThreadsResult struct {
	Agent    string      `json:"agent,omitempty"` // "" for the threads of all agents
	Count    int         `json:"count"`
	More     bool        `json:"more"` // there are more threads
	Continue string      `json:"continue,omitempty"`
	Threads  []OwnThread `json:"threads"`
}

var listThreadsCommand = commands.Define(vocabulary, "list_threads", listThreads).Called("thread list", "", "")

// listThreads lists threads. It changes nothing.
func listThreads(ctx context.Context, env commands.Env, p ListThreadsParams) (ListThreadsResult, error) {
	if p.All {
		return allThreads(ctx, env, p)
	}
	if p.Search != "" {
		return ListThreadsResult{}, orchestrator.Errorf(orchestrator.InvalidParams, "`search` requires `all`")
	}
	skip, err := commands.Place(p.Continue)
	if err != nil {
		return ListThreadsResult{}, err
	}
	agent, err := ownerOf(ctx, env, p.Agent)
	if err != nil {
		return ListThreadsResult{}, err
	}
	list, more, err := threads.Own(ctx, env.Ledger, agent, threads.Status(p.Status), int(skip), p.Limit)
	if err != nil {
		return ListThreadsResult{}, err
	}
	r := ListThreadsResult{Agent: agent, Count: len(list), More: more, Threads: renderThreads(list)}
	if more {
		r.Continue = fmt.Sprint(int(skip) + len(list))
	}
	return forReader(env, r), nil
}

// allThreads lists the threads of all agents.
func allThreads(ctx context.Context, env commands.Env, p ListThreadsParams) (ListThreadsResult, error) {
	if !env.Caller.Admin || p.Agent != "" {
		return ListThreadsResult{}, onlyAdministrators(env.Caller, "all", "the list of all threads", p.Agent)
	}
	list, next, err := threads.All(ctx, env.Ledger,
		threads.AllOptions{Status: threads.Status(p.Status), Search: p.Search, After: p.Continue, Limit: p.Limit})
	return forReader(env,
		ListThreadsResult{Count: len(list), More: next != "", Continue: next, Threads: renderThreads(list)}), err
}

// forReader shortens threads if the answer would be too long for the model that reads it.
func forReader(env commands.Env, r ListThreadsResult) ListThreadsResult {
	for i := range r.Threads {
		if env.Call.Model && !commands.ShownWhole(r) {
			r.Threads[i].shorten()
		}
	}
	return r
}

// onlyAdministrators returns the error for a parameter that only administrators may use, and only without an agent.
func onlyAdministrators(caller commands.Caller, param, what, agent string) error {
	if caller.Admin {
		return orchestrator.Errorf(orchestrator.InvalidParams,
			"`%[1]s` cannot be combined with the agent %[2]s, because `%[1]s` covers all agents", param, agent).
			WithHint("Omit either `agent` or `%s`", param)
	}
	return orchestrator.Errorf(orchestrator.PermissionDenied, "only an administrator may see %s", what).
		WithHint("To see only threads that you take part in, omit `%s`", param)
}

func renderThreads(list []threads.Overview) []OwnThread {
	rendered := make([]OwnThread, len(list))
	for i := range list {
		rendered[i] = OwnThread{Thread: renderThread(&list[i].Thread), Unread: list[i].Unread}
		if last := list[i].Last; len(last) > 0 {
			text := []rune(commands.ContentOf(&last[0]).Text)
			rendered[i].LastPost = &LastPost{last[0].ID, last[0].Sender, last[0].CreatedAt,
				string(text[:min(len(text), commands.MaxExcerpt)])}
		}
	}
	return rendered
}

// Text writes a line for each thread.
func (r ListThreadsResult) Text(w *terminal.Text) {
	switch {
	case r.Count == 0 && r.More:
		w.Printf("No match in the threads that were searched so far. To search further, add --continue %s\n", r.Continue)
		return
	case r.Count == 0 && r.Agent == "":
		w.Printf("No matching threads.\n")
		return
	case r.Count == 0:
		w.Printf("No matching threads for %s.\n", r.Agent)
		return
	}
	terminal.TableOf(w, []string{"THREAD", "NAME", "STATUS", "UNREAD", "LAST POST", "PARTICIPANTS"}, r.Threads,
		func(th *OwnThread) []string {
			last := ""
			if th.LastPost != nil {
				last = w.When(th.LastPost.CreatedAt)
			}
			return []string{th.ThreadID, th.Name, th.Status, fmt.Sprint(th.Unread), last,
				strings.Join(th.Participants, ", ")}
		})
	if r.Continue != "" {
		w.Printf("There are more threads. To list them, add --continue %s\n", r.Continue)
	}
}
