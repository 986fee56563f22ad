package main

// peerSends are the peers in the cases of n senders in one process.
func peerSends(n int) []Contestant {
	return []Contestant{
		{Name: "jetstream-always", Run: jetStreamSends(n, true)},
		{Name: "jetstream-default", Run: jetStreamSends(n, false)},
		{Name: "river", Run: riverSends(n)},
		{Name: "backlite-full", Run: backliteSends(n, true)},
		{Name: "backlite", Run: backliteSends(n, false)},
	}
}

const aboutPeerSends = "JetStream is embedded, its stream in files, without a socket between; jetstream-always syncs each " +
	"message, jetstream-default acknowledges before the disk has it. River has one connection to SQLite, as its driver asks for. " +
	"backlite is set up as its manual says, which loses what was acknowledged when the power is cut; backlite-full syncs each commit."

// peerDeliveries are the peers in the case of a backlog that is delivered into inboxes.
func peerDeliveries() []Contestant {
	return []Contestant{
		{Name: "jetstream-always", Run: jetStreamDelivers(true)},
		{Name: "jetstream-default", Run: jetStreamDelivers(false)},
		{Name: "jetstream-always-take", Run: jetStreamTakes(true)},
		{Name: "jetstream-default-take", Run: jetStreamTakes(false)},
	}
}

const aboutPeerDeliveries = "With JetStream a delivery moves a message into another stream, where its recipient looks, and acknowledges " +
	"it in the first; 1,000 at a time, the fastest way that its client offers. The contestants with -take only take and acknowledge: " +
	"nothing is stored but how far they are."
