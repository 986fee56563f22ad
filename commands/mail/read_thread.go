package mail

import (
	"context"
	"strconv"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/threads"
	"mailroom/tracing"
)

// ReadThreadParams selects the posts of a thread to read.
type ReadThreadParams struct {
	ThreadID string `json:"thread_id" desc:"thread to read" check:"id" arg:"1"`
	All      bool   `json:"all,omitempty" desc:"start at the first post of the thread"`
	Continue string `json:"continue,omitempty" desc:"value of continue in the previous answer" check:"max=64"`
	Limit    int    `json:"limit,omitempty" desc:"maximum number of posts" check:"min=1,max=100" default:"50"`
	Peek     bool   `json:"peek,omitempty" desc:"leave the posts unread"`
	Agent    string `json:"agent,omitempty" desc:"agent that reads the thread" check:"agent"`
	Newest   bool   `json:"newest,omitempty" desc:"for administrators: show the newest posts of any thread, and leave them unread; with continue, show older posts"`
}

// ReadThreadResult is a thread with some of its posts, oldest first.
type ReadThreadResult struct {
	Thread
	Count    int       `json:"count"`
	Posts    []Message `json:"posts"`
	More     bool      `json:"more"`
	Continue string    `json:"continue,omitempty"` // parameter for the next call, if there are more posts
	Rest     string    `json:"rest,omitempty"`     // for a model: how to get the rest
	commands.Taken
}

var readThreadCommand = commands.Define(vocabulary, "read_thread", readThread).
	With(commands.Traits{Kind: tracing.Consumer}).Called("thread show", "", "").Knowing("thread_id",
	commands.KnownThreads)

// readThread returns posts of a thread, and moves the reader's cursor past them. An administrator has no cursor.
func readThread(ctx context.Context, env commands.Env, p ReadThreadParams) (ReadThreadResult, error) {
	o := threads.ReadOptions{Thread: p.ThreadID, All: p.All, Limit: p.Limit, Peek: p.Peek, Newest: p.Newest,
		Lease: commands.Lease(env.Caller, "read_thread", 0)}
	var err error
	if p.Newest && (!env.Caller.Admin || p.Agent != "") {
		err = onlyAdministrators(env.Caller, "newest", "the list of newest posts", p.Agent)
	} else if !p.Newest {
		o.Agent, err = ownerOrAll(ctx, env, p.Agent)
	}
	if err != nil {
		return ReadThreadResult{}, err
	}
	if o.After, err = commands.Place(p.Continue); err != nil {
		return ReadThreadResult{}, err
	}
	o.Fits = env.Fits(postsBeside)
	read, err := threads.Read(ctx, env.Ledger, o)
	if err != nil {
		return ReadThreadResult{}, err
	}
	shown, taken := commands.Hand(ctx, env, read.Posts, o.Lease, postsBeside)
	r := ReadThreadResult{Thread: renderThread(&read.Thread), Count: len(read.Posts), More: read.More,
		Posts: renderPosts(shown), Taken: taken}
	if r.More {
		r.Continue = strconv.FormatInt(read.Next, 10)
		r.Rest = env.Rest(true, "call read_thread with this value of `continue`")
	}
	if env.Call.Model && !commands.ShownWhole(r) {
		r.shorten()
	}
	return r, nil
}

// postsBeside returns an answer with posts, and with room for their thread.
func postsBeside(ms []orchestrator.Message) any {
	return []any{renderPosts(ms), commands.Room}
}

func renderPosts(ms []orchestrator.Message) []Message {
	posts := make([]Message, len(ms))
	for i := range ms {
		posts[i] = render(&ms[i])
		posts[i].Group, posts[i].MulticastID, posts[i].ThreadID, posts[i].SessionID = "", "", "", "" // the same
	}
	return posts
}

// Text writes each post.
func (r ReadThreadResult) Text(w *terminal.Text) {
	w.Printf("%s  %s, %s\n", w.Paint(terminal.Bold, r.ThreadID), r.Name, r.Status)
	for i := range r.Posts {
		r.Posts[i].write(w)
	}
	switch {
	case r.More:
		w.Printf("There are more posts. To show them, add --continue %s\n", r.Continue)
	case r.Count == 0:
		w.Printf("No unread posts. To read the thread from the beginning, add --all.\n")
	}
}
