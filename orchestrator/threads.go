package orchestrator

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"mailroom/orchestrator/store"
)

// ThreadStatus is open or closed.
type ThreadStatus string

// The statuses of a thread. A closed one keeps its posts, and takes no more.
const (
	OpenThread   ThreadStatus = "open"
	ClosedThread ThreadStatus = "closed"
)

// Thread is a conversation of several agents within one session. Times are as stored; "" is "not yet".
type Thread struct {
	ID           string
	Session      string
	Name         string
	Creator      string
	Status       ThreadStatus
	Summary      string // given when it was closed
	CreatedAt    string
	ClosedAt     string
	Participants []Participant // the creator first, then in order of joining
}

// Participant is an agent that may post in a thread and be mentioned there.
type Participant struct {
	Agent       string
	DisplayName string // what it calls itself in the thread's session; its name if it has not said
	JoinedAt    string
}

// Has reports whether an agent takes part.
func (th *Thread) Has(agent string) bool {
	return slices.ContainsFunc(th.Participants, func(p Participant) bool { return p.Agent == agent })
}

// ThreadDraft is a thread about to be made.
type ThreadDraft struct {
	Session      string
	Name         string   // 1 to 256 bytes
	Creator      string   // takes part
	Participants []string // the others
	Register     bool     // the creator proved its identity: add it if nobody knows it yet
}

// ThreadChange says which thread is to be changed, and who asks.
type ThreadChange struct {
	Session string // of whoever asks; a participant may ask from any
	Thread  string
	By      string // a participant; "" is the administrator
}

// CreateThread makes a thread. Errors: invalid_params, also for the user as a participant; unknown_sender for the creator;
// not_found for a participant that nobody knows.
func (r *Router) CreateThread(ctx context.Context, d ThreadDraft) (th Thread, err error) {
	if d.Session, err = CheckName("session", d.Session); err != nil {
		return th, err
	}
	if d.Creator, err = CheckName("agent", d.Creator); err != nil {
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
	err = r.write(ctx, func(t *tx) error {
		conf, err := t.acting(d.Creator, d.Register)
		if err != nil {
			return err
		}
		for _, name := range names {
			if conf.agents[name] == nil {
				return t.unknownAgent(NotFound, "participant: ", name, conf)
			}
		}
		th, err = t.createThread(&d, names)
		return err
	})
	return th, err
}

// createThread is CreateThread for names that were checked. The first of participants is the creator.
func (t *tx) createThread(d *ThreadDraft, participants []string) (th Thread, err error) {
	id, err := t.newID("thread-")
	if err != nil {
		return th, err
	}
	t.traced = true
	if _, err := t.Exec(`INSERT INTO threads (thread_id, session_id, name, creator, created_at) VALUES (?, ?, ?, ?, ?)`,
		id, d.Session, d.Name, d.Creator, t.now); err != nil {
		return th, err
	}
	for _, name := range participants {
		if err := t.addParticipant(id, name); err != nil {
			return th, err
		}
	}
	th, _, err = t.thread(id)
	return th, err
}

// checkParticipant folds and checks the name of who is to take part. The user cannot, since nobody posts in that name; the
// operator can.
func checkParticipant(name string) (string, error) {
	name, err := CheckName("participant", name)
	if err == nil && name == User {
		err = noMember(name, "thread").WithHint("Post in direct:%s, or write to %s by its name", name, name)
	}
	return name, err
}

// checkThreadName refuses a name that no thread can have.
func checkThreadName(name string) error {
	if name == "" {
		return Errorf(InvalidParams, "the thread needs a name")
	}
	if err := checkLine("the name of the thread", name, maxKey); err != nil {
		return err
	}
	return checkPlain("the name of the thread", name)
}

// checkLine refuses a text that is too long, or that cannot be stored as it is.
func checkLine(what, text string, limit int) error {
	switch {
	case len(text) > limit:
		return Errorf(InvalidParams, "%s has %d bytes; at most %d are allowed", what, len(text), limit)
	case strings.ContainsRune(text, 0) || !utf8.ValidString(text):
		return Errorf(InvalidParams, "%s holds a NUL or is not valid UTF-8", what)
	}
	return nil
}

// AddParticipant lets an agent take part in a thread from now on; added is false for one that does already. Errors:
// invalid_params for the user; not_found for the agent or the thread, also when by takes no part in it itself; conflict for a
// closed thread.
func (r *Router) AddParticipant(ctx context.Context, c ThreadChange, agent string) (th Thread, added bool, err error) {
	if agent, err = checkParticipant(agent); err != nil {
		return th, false, err
	}
	err = r.write(ctx, func(t *tx) error {
		if th, err = t.openThread(&c); err != nil {
			return err
		}
		conf, err := t.config()
		if err != nil {
			return err
		}
		if conf.agents[agent] == nil {
			return t.unknownAgent(NotFound, "participant: ", agent, conf)
		}
		if added = !th.Has(agent); !added {
			return nil
		}
		t.traced = true
		if err := t.addParticipant(th.ID, agent); err != nil {
			return err
		}
		t.ring.add([]string{anyThread}) // what was posted before is new to it
		th, _, err = t.thread(th.ID)
		return err
	})
	return th, added, err
}

func (t *tx) addParticipant(thread, agent string) error {
	_, err := t.Exec(`INSERT INTO thread_participants (thread_id, agent, joined_at) VALUES (?, ?, ?)`, thread, agent, t.now)
	return err
}

// RemoveParticipant ends an agent's part in a thread. What was sent to it stays. Errors: as AddParticipant; not_found
// also for an agent that takes no part.
func (r *Router) RemoveParticipant(ctx context.Context, c ThreadChange, agent string) (th Thread, err error) {
	if agent, err = CheckName("participant", agent); err != nil {
		return th, err
	}
	err = r.write(ctx, func(t *tx) error {
		if th, err = t.openThread(&c); err != nil {
			return err
		}
		if !th.Has(agent) {
			return Errorf(NotFound, "%s takes no part in %s", agent, th.ID).WithHint("%s", didYouMean(agent, th.Names()))
		}
		t.traced = true
		if _, err := t.Exec(`DELETE FROM thread_participants WHERE thread_id = ? AND agent = ?`, th.ID, agent); err != nil {
			return err
		}
		th, _, err = t.thread(th.ID)
		return err
	})
	return th, err
}

// Closing is the end of a thread, with a notice of the type ThreadClosed.
type Closing struct {
	Summary string // what came of it, at most 8 KiB; it is kept with the thread
	Notice
}

// Notice is what the router itself says in a thread of what was done to it.
type Notice struct {
	Type    string          // any word, at most 64 bytes
	Payload json.RawMessage // one JSON value of at most MaxPayload bytes; nil says nothing
}

// CloseThread ends a conversation: its posts and the summary stay, and it takes no more. The notice is its last post, of the
// router itself; everybody who takes part gets it as a message, but for who closes. Retention counts the age of the posts
// from now on. Errors: invalid_params for a summary of more than 8 KiB; as AddParticipant.
func (r *Router) CloseThread(ctx context.Context, c ThreadChange, end Closing) (th Thread, err error) {
	if err := checkLine("the summary", end.Summary, maxText); err != nil {
		return th, err
	}
	err = r.write(ctx, func(t *tx) error {
		if th, err = t.openThread(&c); err != nil {
			return err
		}
		t.traced = true
		if _, err := t.Exec(`UPDATE threads SET status = 'closed', summary = ?, closed_at = ? WHERE thread_id = ?`,
			end.Summary, t.now, th.ID); err != nil {
			return err
		}
		if err := t.tellClosed(&th, foldName(c.By), &end); err != nil {
			return err
		}
		th, _, err = t.thread(th.ID)
		return err
	})
	return th, err
}

// tellClosed posts the notice that a thread was closed.
func (t *tx) tellClosed(th *Thread, by string, end *Closing) error {
	conf, err := t.config()
	if err != nil {
		return err
	}
	told := slices.DeleteFunc(th.Names(), func(name string) bool { return name == by || conf.agents[name] == nil })
	return t.postNotice(th, &end.Notice, told)
}

// postNotice posts a notice in a thread. Those whom it mentions get it as a message of their own.
func (t *tx) postNotice(th *Thread, notice *Notice, mentions []string) error {
	if notice.Payload == nil {
		return nil
	}
	conf, err := t.config()
	if err != nil {
		return err
	}
	d, err := Draft{Sender: SystemSender, Type: notice.Type, Payload: notice.Payload, ThreadID: th.ID, SessionID: th.Session}.checkContent()
	if err != nil {
		return err
	}
	return t.insertPost(conf, &d, 0, &Posted{Mentions: mentions})
}

// openThread returns a thread that may be changed by whoever asks. A participant finds it by its id in whatever session
// it asks, since what mentions it reaches it there too; the administrator finds those of the session.
func (t *tx) openThread(c *ThreadChange) (Thread, error) {
	th, found, err := t.thread(c.Thread)
	switch {
	case err != nil:
		return th, err
	case c.By != "" && !th.Has(foldName(c.By)):
		return th, noThread(c.Thread)
	case c.By == "" && (!found || th.Session != foldName(c.Session)):
		return th, Errorf(NotFound, "there is no thread %q in the session %s", Clip(c.Thread), Clip(c.Session)).
			WithHint("create_thread answers with the id of the thread it makes; it may be in another session")
	case th.Status != OpenThread:
		return th, Errorf(Conflict, "%s was closed at %s", th.ID, th.ClosedAt).WithHint("Start a new thread")
	}
	return th, nil
}

// thread returns a thread with those who take part, whatever its session.
func (c *Conn) thread(id string) (th Thread, found bool, err error) {
	err = c.query(`
		SELECT thread_id, session_id, name, creator, status, summary, created_at, closed_at FROM threads WHERE thread_id = ?`,
		func(row store.Row) error {
			th = Thread{
				ID: row.Text(0), Session: row.Text(1), Name: row.Text(2), Creator: row.Text(3),
				Status: ThreadStatus(row.Text(4)), Summary: row.Text(5), CreatedAt: row.Text(6), ClosedAt: row.Text(7),
				Participants: []Participant{},
			}
			found = true
			return nil
		}, id)
	if err != nil || !found {
		return th, found, err
	}
	err = c.query(`
		SELECT p.agent, coalesce(nullif(s.display_name, ''), p.agent), p.joined_at
		FROM thread_participants p LEFT JOIN presence s ON s.session_id = ?2 AND s.agent = p.agent
		WHERE p.thread_id = ?1 ORDER BY p.agent <> ?3, p.joined_at, p.agent`, func(row store.Row) error {
		th.Participants = append(th.Participants, Participant{row.Text(0), row.Text(1), row.Text(2)})
		return nil
	}, th.ID, th.Session, th.Creator)
	return th, found, err
}

// Names lists who takes part.
func (th *Thread) Names() []string {
	names := make([]string, len(th.Participants))
	for i, p := range th.Participants {
		names[i] = p.Agent
	}
	return names
}

// Threads returns those of the threads that exist, by id, whatever their session: whoever shows messages must be able to
// say where they belong.
func (r *Router) Threads(ctx context.Context, ids []string) (map[string]Thread, error) {
	threads := map[string]Thread{}
	err := r.read(ctx, func(c *Conn) error {
		for _, id := range ids {
			th, found, err := c.thread(id)
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
