package main

// peerSends returns the other systems in the cases of n senders in one process.
func peerSends(n int) []Contestant {
	return []Contestant{
		{Name: "jetstream-always", Run: jetStreamSends(n, true)},
		{Name: "jetstream-default", Run: jetStreamSends(n, false)},
		{Name: "river", Run: riverSends(n)},
		{Name: "backlite-full", Run: backliteSends(n, true)},
		{Name: "backlite", Run: backliteSends(n, false)},
	}
}

const aboutPeerSends = "- jetstream-always and jetstream-default are JetStream, embedded without a socket, with its stream in " +
	"files. jetstream-always syncs each message. jetstream-default acknowledges a message before it is on disk.\n" +
	"- river has one connection to SQLite, which is the number that River's driver asks for.\n" +
	"- backlite is set up as its manual describes. It loses acknowledged messages if the power is cut. backlite-full syncs each " +
	"commit."

// peerDeliveries returns the other systems in the case of a backlog that is delivered into inboxes.
func peerDeliveries() []Contestant {
	return []Contestant{
		{Name: "jetstream-always", Run: jetStreamDelivers(true)},
		{Name: "jetstream-default", Run: jetStreamDelivers(false)},
		{Name: "jetstream-always-take", Run: jetStreamTakes(true)},
		{Name: "jetstream-default-take", Run: jetStreamTakes(false)},
	}
}

const aboutPeerDeliveries = "With JetStream, a delivery moves a message into another stream, where the recipient looks for " +
	"messages, and acknowledges the message in the first stream. The benchmark moves 1,000 messages at a time, which is the " +
	"fastest way that JetStream's client offers. The contestants whose names end with -take only take and acknowledge messages, " +
	"and JetStream stores only the position in the stream."
