package enginetest

import (
	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/overview"
)

// Add adds or changes an agent.
func (f *Fixture) Add(u agents.Update) ledger.Agent {
	f.T.Helper()
	a, _, err := agents.Add(f.T.Context(), f.Ledger, u)
	if err != nil {
		f.T.Fatal(err)
	}
	return a
}

// AddAll adds agents with these names and the transport inbox.
func (f *Fixture) AddAll(names ...string) {
	f.T.Helper()
	for _, name := range names {
		f.Add(agents.Update{Name: name})
	}
}

// ViewInboxes creates inbox views for agents, and adds the agents if needed.
func (f *Fixture) ViewInboxes(names ...string) {
	f.T.Helper()
	for _, name := range names {
		f.Add(agents.Update{Name: name, InboxView: new(true)})
	}
}

// AddWired adds an agent with the scripted transport.
func (f *Fixture) AddWired(name string) {
	f.T.Helper()
	target := "wire:" + name
	f.Add(agents.Update{Name: name, Deliver: &target})
}

// Agent returns the current state of an agent.
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

// Standing returns the standing of an agent.
func (f *Fixture) Standing(agent string) overview.Standing {
	f.T.Helper()
	s, err := overview.StandingOf(f.T.Context(), f.Ledger, agent)
	if err != nil {
		f.T.Fatal(err)
	}
	return s
}

// SayStatus sends a message in which an agent reports its status in a session.
func (f *Fixture) SayStatus(agent, to, session string, status orchestrator.PresenceStatus) {
	f.T.Helper()
	f.Send(agent, to, func(d *orchestrator.Draft) { d.SessionID, d.Presence = session, status })
}
