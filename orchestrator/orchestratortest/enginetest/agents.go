package enginetest

import (
	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/overview"
)

// Add adds an agent, or changes one.
func (f *Fixture) Add(u agents.Update) ledger.Agent {
	f.T.Helper()
	a, _, err := agents.Add(f.T.Context(), f.Ledger, u)
	if err != nil {
		f.T.Fatal(err)
	}
	return a
}

// AddAll adds agents with these names, which read in their inboxes.
func (f *Fixture) AddAll(names ...string) {
	f.T.Helper()
	for _, name := range names {
		f.Add(agents.Update{Name: name})
	}
}

// ViewInboxes gives agents, which it adds if need be, the views of their inboxes.
func (f *Fixture) ViewInboxes(names ...string) {
	f.T.Helper()
	for _, name := range names {
		f.Add(agents.Update{Name: name, InboxView: new(true)})
	}
}

// AddWired adds an agent behind the scripted transport.
func (f *Fixture) AddWired(name string) {
	f.T.Helper()
	target := "wire:" + name
	f.Add(agents.Update{Name: name, Deliver: &target})
}

// Agent returns an agent as it is now.
func (f *Fixture) Agent(name string) ledger.Agent {
	f.T.Helper()
	list, err := agents.List(f.T.Context(), f.Ledger)
	if err != nil {
		f.T.Fatal(err)
	}
	for _, a := range list {
		if a.Name == name {
			return a
		}
	}
	f.T.Fatalf("nobody is called %s", name)
	return ledger.Agent{}
}

// Standing returns how an agent is doing.
func (f *Fixture) Standing(agent string) overview.Standing {
	f.T.Helper()
	s, err := overview.StandingOf(f.T.Context(), f.Ledger, agent)
	if err != nil {
		f.T.Fatal(err)
	}
	return s
}

// SayStatus sends a message in which an agent says what it does in a session.
func (f *Fixture) SayStatus(agent, to, session string, status orchestrator.PresenceStatus) {
	f.T.Helper()
	f.Send(agent, to, func(d *orchestrator.Draft) { d.SessionID, d.Presence = session, status })
}
