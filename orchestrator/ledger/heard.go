package ledger

import "slices"

// Heartbeat notes that an agent is alive: it sent, read or acknowledged something. It is stored once, at the end of the
// request, and only for an agent that has a limit to its silence.
func (t *Tx) Heartbeat(name string) {
	if a := t.Config().Agents[name]; a != nil && a.SilentAfter > 0 && !slices.Contains(t.heartbeats, name) {
		t.heartbeats = append(t.heartbeats, name)
	}
}

// storeHeartbeats has the heartbeats of this request stored. Its other changes must have been made: of what an agent says that
// it does depends when its silence is reported.
func (t *Tx) storeHeartbeats() error {
	for _, name := range t.heartbeats {
		for _, p := range t.Ledger.Parts {
			if p.Heard == nil || t.conf.Agents[name] == nil {
				continue
			}
			if err := p.Heard(t, t.conf.Agents[name]); err != nil {
				return err
			}
		}
	}
	return nil
}
