package kills

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// door is a way in which a reader gets its messages.
type door struct {
	name     string
	way      func(o *office, d *door, v *visit) (outcome, error)
	words    func(o *office, a *agent) []string // on the command line
	tool     string                             // of MCP, or command of HTTP
	args     func(o *office, a *agent) string   // JSON
	posts    bool                               // it shows posts of the thread
	arriving bool                               // there are no messages when it begins

	kills, late atomic.Int64

	mu      sync.Mutex
	typical time.Duration // from the beginning to the complete answer
}

// visit describes the run of one reader.
type visit struct {
	*agent
	random *rand.Rand
	stuck  bool          // its output is read only after the kill
	spared bool          // it is not killed
	before time.Duration // how long the reader waits before the message arrives
	// moment is the time of the kill, from the beginning or, if the reader waits for a message, from the send.
	moment time.Duration
}

// answer is an answer for an agent. whole reports whether a parser accepts it.
type answer struct {
	agent string
	text  []byte
	whole bool
}

// outcome is the result of a reader.
type outcome struct {
	answers []answer
	killed  bool          // before it had ended
	took    time.Duration // until the whole answer was there; 0 if it never was
}

// patience is the maximum time of a reader that is not killed.
const patience = time.Minute

// usual is the assumed time of a reader before the first measurement.
const usual = 100 * time.Millisecond

// draw chooses the parameters of the next reader at random. Most kills come late in the run of the reader, when
// messages can be lost. Some come after its end.
func (d *door) draw(o *office, random *rand.Rand) visit {
	v := visit{agent: o.agents[random.IntN(len(o.agents))], random: random, stuck: random.IntN(3) == 0}
	part := 0.35 + 0.75*random.Float64()
	if random.IntN(5) == 0 {
		part = 1.1 * random.Float64()
	}
	if v.stuck {
		part = 0.5 + 1.5*random.Float64()
	}
	v.moment = time.Duration(part * float64(d.window()))
	v.before = time.Duration(1.5 * random.Float64() * float64(usual))
	return v
}

// window returns the typical time of a reader at this door.
func (d *door) window() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.typical == 0 {
		return usual
	}
	return d.typical
}

// learn adjusts the typical time of the door to the time of a reader.
func (d *door) learn(v *visit, out *outcome) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case v.stuck:
	case v.spared:
		d.typical = out.took
	case out.took > 0:
		d.typical += (out.took - d.typical) / 8
	case v.moment > d.typical:
		d.typical += d.typical / 16
	}
}

// Command-line arguments and JSON arguments that several doors share.
func asAgent(words ...string) func(*office, *agent) []string {
	return func(_ *office, a *agent) []string { return append(words, "--as", a.name) }
}

func fixed(args string) func(*office, *agent) string {
	return func(*office, *agent) string { return args }
}

func inThread(o *office, _ *agent) string { return fmt.Sprintf(`{"thread_id":%q}`, o.thread) }

func waitOf(seconds int) func(*office, *agent) string {
	return func(_ *office, a *agent) string { return fmt.Sprintf(`{"recipient":%q,"timeout":%d}`, a.name, seconds) }
}

// allDoors returns all doors through which a reader marks messages as read.
func allDoors() []*door {
	return []*door{
		{name: "read", way: byCommand, words: func(_ *office, a *agent) []string { return []string{"read", a.name} }},
		{name: "wait", way: byCommand, words: asAgent("wait", "--timeout", "0")},
		{name: "wait, arriving", way: byCommand, arriving: true, words: asAgent("wait")},
		{name: "ralph inbox", way: byCommand, words: asAgent("ralph", "inbox")},
		{name: "ralph inbox, arriving", way: byCommand, arriving: true,
			words: asAgent("ralph", "inbox", "--wait", "50")},
		{name: "relay get-messages", way: byCommand, words: asAgent("relay", "get-messages")},
		{name: "coral wait-for-mentions", way: byCommand, posts: true,
			words: asAgent("coral", "wait-for-mentions", "--any", "--timeout-ms", "0")},
		{name: "team messages", way: byCommand, words: asAgent("team", "messages")},
		{name: "team send-message", way: byCommand,
			words: asAgent("team", "send-message", "--to", writer, "--message", "hello")},
		{name: "thread show", way: byCommand, posts: true,
			words: func(o *office, a *agent) []string { return []string{"thread", "show", o.thread, "--as", a.name} }},
		{name: "mcp get_messages", way: byTool, tool: "get_messages", args: fixed(`{}`)},
		{name: "mcp get_messages, arriving", way: byTool, arriving: true, tool: "get_messages",
			args: fixed(`{"wait_seconds":50}`)},
		{name: "mcp wait", way: byTool, tool: "wait", args: waitOf(0)},
		{name: "mcp coral_wait_for_mentions", way: byTool, posts: true, tool: "coral_wait_for_mentions",
			args: fixed(`{"any":true,"timeoutMs":0}`)},
		{name: "mcp coral_wait_for_mentions, arriving", way: byTool, arriving: true, tool: "coral_wait_for_mentions",
			args: fixed(`{"timeoutMs":50000}`)},
		{name: "mcp ralph_inbox", way: byTool, tool: "ralph_inbox", args: fixed(`{}`)},
		{name: "mcp read_thread", way: byTool, posts: true, tool: "read_thread", args: inThread},
		{name: "mcp team_messages", way: byTool, tool: "team_messages", args: fixed(`{}`)},
		{name: "mcp team_members", way: byTool, tool: "team_members", args: fixed(`{}`)},
		{name: "mcp team_idle", way: byTool, tool: "team_idle", args: fixed(`{}`)},
		{name: "mcp SendMessage", way: byTool, tool: "SendMessage",
			args: fixed(`{"to":"` + writer + `","message":"hello"}`)},
		{name: "http wait, client gone", way: byClient(requestOfCommand), tool: "wait", args: waitOf(0)},
		{name: "http wait, arriving, client gone", way: byClient(requestOfCommand), arriving: true, tool: "wait",
			args: waitOf(50)},
		{name: "http wait, client gone before", way: byDeserter(requestOfCommand), arriving: true, tool: "wait",
			args: waitOf(50)},
		{name: "http mcp get_messages, client gone", way: byClient(requestOfTool), tool: "get_messages",
			args: fixed(`{}`)},
		{name: "http mcp coral_wait_for_mentions, client gone", way: byClient(requestOfTool), posts: true,
			tool: "coral_wait_for_mentions", args: fixed(`{"any":true,"timeoutMs":0}`)},
		{name: "http mcp read_thread, client gone", way: byClient(requestOfTool), posts: true, tool: "read_thread",
			args: inThread},
		{name: "http wait, daemon killed", way: byDaemon(requestOfCommand), tool: "wait", args: waitOf(0)},
		{name: "http mcp get_messages, daemon killed", way: byDaemon(requestOfTool), tool: "get_messages",
			args: fixed(`{}`)},
		{name: "http mcp coral_wait_for_mentions, daemon killed", way: byDaemon(requestOfTool), posts: true,
			tool: "coral_wait_for_mentions", args: fixed(`{"any":true,"timeoutMs":0}`)},
	}
}
