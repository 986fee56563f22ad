// Package threads implements conversations of several agents: their participants, their posts, and who has read them.
package threads

import (
	"context"
	"encoding/json"
	"slices"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// Status is the state of a thread.
type Status string

// Open is the status of a thread that takes posts.
const Open Status = "open"

// Thread is a conversation of several agents. It belongs to a session. Times are as stored; "" means not yet.
type Thread struct {
	ID           string
	Session      string
	Name         string
	Creator      string
	Status       Status
	Summary      string // given when the thread was closed
	CreatedAt    string
	ClosedAt     string
	Participants []Participant // the creator first, then in order of joining
}

// Participant is an agent that takes part in a thread: it reads the posts, can post, and can be mentioned.
type Participant struct {
	Agent       string
	DisplayName string // its display name in the thread's session, or else its name
}

// Has reports whether an agent takes part in the thread.
func (th *Thread) Has(agent string) bool {
	return slices.ContainsFunc(th.Participants, func(p Participant) bool { return p.Agent == agent })
}

// Draft describes a thread that is about to be created.
type Draft struct {
	Session      string
	Name         string   // 1 to 256 bytes
	Creator      string   // takes part
	Participants []string // the others
}

// Change identifies the thread to change and the agent that requests the change.
type Change struct {
	Session string // session of the requester; a participant may ask from any session
	Thread  string
	By      string // a participant; "" is the administrator
}

// Create creates a thread. Errors: invalid_params, also for the user as a participant; unknown_sender for the creator;
// not_found for a participant that does not exist.
func Create(ctx context.Context, l *ledger.Ledger, d Draft) (th Thread, err error) {
	if d.Session, err = orchestrator.CheckName("session", d.Session); err != nil {
		return th, err
	}
	if d.Creator, err = orchestrator.CheckName("agent", d.Creator); err != nil {
		return th, err
	}
	if err := checkThreadName(d.Name); err != nil {
		return th, err
	}
	names := []string{d.Creator}
	for _, p := range d.Participants {
		if p, err = checkParticipant(p); err != nil {
			return th, err
		}
		if !slices.Contains(names, p) {
			names = append(names, p)
		}
	}
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		conf, err := agents.Acting(t, d.Creator)
		if err != nil {
			return err
		}
		for _, name := range names {
			if conf.Agents[name] == nil {
				return agents.Unknown(t.Conn, orchestrator.NotFound, "participant: ", name, conf)
			}
		}
		id, err := t.NewID("thread-")
		if err != nil {
			return err
		}
		t.KeepSpan()
		if err := t.Run(`INSERT INTO threads (thread_id, session_id, name, creator, created_at) VALUES (?, ?, ?, ?, ?)`,
			id, d.Session, d.Name, d.Creator, t.Now); err != nil {
			return err
		}
		for _, name := range names {
			if err := addParticipant(t, id, name); err != nil {
				return err
			}
		}
		th, _, err = thread(t.Conn, id)
		return err
	})
	return th, err
}

// checkParticipant folds and checks the name of a new participant. The user cannot take part, because nobody posts in
// the user's name; the operator can.
func checkParticipant(name string) (string, error) {
	name, err := orchestrator.CheckName("participant", name)
	if err == nil && name == orchestrator.User {
		err = agents.NoMember(name, "thread").WithHint("Post in direct:%s, or send to %s directly", name, name)
	}
	return name, err
}

// checkThreadName refuses an invalid name for a thread.
func checkThreadName(name string) error {
	if name == "" {
		return orchestrator.Errorf(orchestrator.InvalidParams, "the thread must have a name")
	}
	if err := orchestrator.CheckText("the name of the thread", name, orchestrator.MaxKey); err != nil {
		return err
	}
	return orchestrator.CheckPlain("the name of the thread", name)
}

// AddParticipant adds an agent to a thread. added is false if the agent already takes part. Errors: invalid_params
// for the user; not_found for the agent or the thread, also if the requesting agent does not take part itself;
// conflict for a closed thread.
func AddParticipant(ctx context.Context, l *ledger.Ledger, c Change, agent string) (th Thread, added bool, err error) {
	if agent, err = checkParticipant(agent); err != nil {
		return th, false, err
	}
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		if th, err = openThread(t, &c); err != nil {
			return err
		}
		conf := t.Config()
		if conf.Agents[agent] == nil {
			return agents.Unknown(t.Conn, orchestrator.NotFound, "participant: ", agent, conf)
		}
		if added = !th.Has(agent); !added {
			return nil
		}
		t.KeepSpan()
		if err := addParticipant(t, th.ID, agent); err != nil {
			return err
		}
		t.Wake(orchestrator.AnyThread) // earlier posts are new to the agent
		th, _, err = thread(t.Conn, th.ID)
		return err
	})
	return th, added, err
}

func addParticipant(t *ledger.Tx, thread, agent string) error {
	return t.Run(`INSERT INTO thread_participants (thread_id, agent, joined_at) VALUES (?, ?, ?)`, thread, agent, t.Now)
}

// RemoveParticipant removes an agent from a thread. Messages that were sent to the agent stay. Errors: those of
// AddParticipant; not_found also for an agent that does not take part.
func RemoveParticipant(ctx context.Context, l *ledger.Ledger, c Change, agent string) (th Thread, err error) {
	if agent, err = orchestrator.CheckName("participant", agent); err != nil {
		return th, err
	}
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		if th, err = openThread(t, &c); err != nil {
			return err
		}
		if !th.Has(agent) {
			return orchestrator.Errorf(orchestrator.NotFound, "%s does not take part in %s", agent, th.ID).
				WithHint("%s", orchestrator.DidYouMean(agent, th.Names()))
		}
		t.KeepSpan()
		if err := t.Run(`DELETE FROM thread_participants WHERE thread_id = ? AND agent = ?`, th.ID, agent); err != nil {
			return err
		}
		th, _, err = thread(t.Conn, th.ID)
		return err
	})
	return th, err
}

// Closing describes the end of a thread: a summary, and a notice of the type orchestrator.ThreadClosed.
type Closing struct {
	Summary string // the result, at most 8 KiB; stored with the thread
	Notice
}

// Notice is a post of orchestrator.SystemSender that informs the participants about a change of their thread.
type Notice struct {
	Type    string          // any word, at most 64 bytes
	Payload json.RawMessage // one JSON value of at most MaxPayload bytes; nil: no post is made
}

// Close closes a thread. Its posts and the summary can still be read, but nobody can post there any more. The notice
// is the last post. All participants get it as a message, except the one that closes the thread. From then on the
// posts age, and retention eventually deletes them. Errors: invalid_params for a summary of more than 8 KiB; those of
// AddParticipant.
func Close(ctx context.Context, l *ledger.Ledger, c Change, end Closing) (th Thread, err error) {
	if err := orchestrator.CheckText("the summary", end.Summary, orchestrator.MaxText); err != nil {
		return th, err
	}
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		if th, err = openThread(t, &c); err != nil {
			return err
		}
		t.KeepSpan()
		if err := t.Run(`UPDATE threads SET status = 'closed', summary = ?, closed_at = ? WHERE thread_id = ?`,
			end.Summary, t.Now, th.ID); err != nil {
			return err
		}
		conf, by := t.Config(), orchestrator.FoldName(c.By)
		told := slices.DeleteFunc(th.Names(), func(name string) bool { return name == by || conf.Agents[name] == nil })
		if err := postNotice(t, &th, &end.Notice, told); err != nil {
			return err
		}
		th, _, err = thread(t.Conn, th.ID)
		return err
	})
	return th, err
}

// postNotice posts a notice in a thread. The mentioned agents also get it as a message of their own.
func postNotice(t *ledger.Tx, th *Thread, notice *Notice, mentions []string) error {
	if notice.Payload == nil {
		return nil
	}
	d, err := ledger.CheckContent(orchestrator.Draft{Sender: orchestrator.SystemSender, Type: notice.Type,
		Payload: notice.Payload, ThreadID: th.ID, SessionID: th.Session})
	if err != nil {
		return err
	}
	return insertPost(t, t.Config(), &d, 0, &Posted{Mentions: mentions})
}

// openThread returns a thread that the requester may change. A participant finds a thread by its id from any session,
// because mentions reach it in any session. The administrator finds only the threads of the session.
func openThread(t *ledger.Tx, c *Change) (Thread, error) {
	th, found, err := thread(t.Conn, c.Thread)
	switch {
	case err != nil:
		return th, err
	case c.By != "" && !th.Has(orchestrator.FoldName(c.By)):
		return th, noThread(c.Thread)
	case c.By == "" && (!found || th.Session != orchestrator.FoldName(c.Session)):
		return th, orchestrator.Errorf(orchestrator.NotFound, "there is no thread %q in the session %s",
			orchestrator.Clip(c.Thread), orchestrator.Clip(c.Session)).
			WithHint("Use the ID that create_thread returned. The thread might be in another session")
	case th.Status != Open:
		return th, orchestrator.Errorf(orchestrator.Conflict, "%s was closed at %s", th.ID, th.ClosedAt).
			WithHint("Start a new thread")
	}
	return th, nil
}

// thread returns a thread of any session, with its participants.
func thread(c *store.Conn, id string) (th Thread, found bool, err error) {
	th, found, err = store.First(c, func(row store.Row) Thread {
		return Thread{
			ID: row.Text(0), Session: row.Text(1), Name: row.Text(2), Creator: row.Text(3),
			Status: Status(row.Text(4)), Summary: row.Text(5), CreatedAt: row.Text(6), ClosedAt: row.Text(7),
		}
	}, `SELECT thread_id, session_id, name, creator, status, summary, created_at, closed_at FROM threads
		WHERE thread_id = ?`, id)
	if err != nil || !found {
		return th, found, err
	}
	th.Participants, err = store.List(c,
		func(row store.Row) Participant { return Participant{row.Text(0), row.Text(1)} }, `
		SELECT p.agent, coalesce(nullif(s.display_name, ''), p.agent)
		FROM thread_participants p LEFT JOIN presence s ON s.session_id = ?2 AND s.agent = p.agent
		WHERE p.thread_id = ?1 ORDER BY p.agent <> ?3, p.joined_at, p.agent`, th.ID, th.Session, th.Creator)
	return th, found, err
}

// Names returns the names of the participants.
func (th *Thread) Names() []string {
	names := make([]string, len(th.Participants))
	for i, p := range th.Participants {
		names[i] = p.Agent
	}
	return names
}

// List returns the threads with the given ids, of any session, by id. It leaves out unknown ids.
func List(ctx context.Context, l *ledger.Ledger, ids []string) (map[string]Thread, error) {
	var threads map[string]Thread
	err := l.Read(ctx, func(c *store.Conn) error {
		threads = map[string]Thread{}
		for _, id := range ids {
			th, found, err := thread(c, id)
			if err != nil {
				return err
			}
			if found {
				threads[id] = th
			}
		}
		return nil
	})
	return threads, err
}
