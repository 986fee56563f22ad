package enginetest

import (
	"encoding/json"

	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/threads"
)

// Room is the session of the threads.
const Room = "room"

// Thread creates a thread whose creator is the first participant.
func (f *Fixture) Thread(participants ...string) threads.Thread {
	f.T.Helper()
	th, err := threads.Create(f.T.Context(), f.Ledger,
		threads.Draft{Session: Room, Name: "a talk", Creator: participants[0], Participants: participants[1:]})
	if err != nil {
		f.T.Fatal(err)
	}
	return th
}

// Post posts in a thread.
func (f *Fixture) Post(thread, sender string, mentions ...string) (threads.Posted, error) {
	return threads.Post(f.T.Context(), f.Ledger, threads.PostDraft{
		Session: Room, Thread: thread, Sender: sender, Mentions: mentions, Type: "post",
		Payload: func(mentions []string) (json.RawMessage, error) {
			return json.Marshal(map[string]any{"content": "hello", "mentions": mentions})
		},
	})
}

// MustPost posts in a thread, and ends the test on an error.
func (f *Fixture) MustPost(thread, sender string, mentions ...string) threads.Posted {
	f.T.Helper()
	p, err := f.Post(thread, sender, mentions...)
	if err != nil {
		f.T.Fatal(err)
	}
	return p
}

// PostFrom posts as the agent a, without mentions, through a given engine.
func (f *Fixture) PostFrom(e *delivery.Engine, thread string) {
	f.T.Helper()
	if _, err := threads.Post(f.T.Context(), e.Ledger, threads.PostDraft{
		Session: Room, Thread: thread, Sender: "a", Type: "post",
		Payload: func([]string) (json.RawMessage, error) { return json.RawMessage(`1`), nil },
	}); err != nil {
		f.T.Fatal(err)
	}
}

// TakePosts reads all new messages of an agent, including posts.
func (f *Fixture) TakePosts(agent string, limit int) (ms []orchestrator.Message, more bool) {
	f.T.Helper()
	ms, more, err := reading.Wait(f.T.Context(), f.Ledger, reading.Options{Recipient: agent, Limit: limit, Posts: true})
	if err != nil {
		f.T.Fatal(err)
	}
	return ms, more
}

// CloseThread closes a thread.
func (f *Fixture) CloseThread(id string) {
	f.T.Helper()
	if _, err := threads.Close(f.T.Context(), f.Ledger, threads.Change{Session: Room, Thread: id},
		threads.Closing{}); err != nil {
		f.T.Fatal(err)
	}
}
