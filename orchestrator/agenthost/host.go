package agenthost

import (
	"cmp"
	"regexp"
	"time"

	"mailroom/orchestrator/hosts"
)

// Host describes one agent host: how it is recognized, what `mailroom connect` writes into its configuration, which
// events its hooks report, and which form of answer it accepts. A zero field means that the host lacks the feature.
type Host struct {
	Name string // for people and records, such as claude

	programs []string // names of its executables, unique to it
	packages []string // npm packages that contain its script
	parts    []string // scripts that it runs in separate processes, which are not its session's
	variable string   // environment variable that it alone sets for its child processes
	clients  []string // prefixes of the names of its MCP clients

	Connection
	Sessions
	Hooks
	Transcript
}

// Connection describes how a host is connected.
type Connection struct {
	Files    []File                // its configuration files; the first contains the tools
	Asks     string                // what it asks its user at the next start
	Off      []Setting             // settings with which it runs no hooks
	Digests  bool                  // it runs a hook only if its configuration has the digest that the user trusted
	Replaces func() *regexp.Regexp // what it replaces by an environment variable in command lines
	Calls    CallTime

	NeverAsks bool // it never asks its user before using a tool
	// Allows lists arguments with which the host does not ask before using our tools. A host with such arguments
	// asks without them, whatever its configuration sets.
	Allows     []string
	Wakes      []string // arguments that it needs to run a program that wakes idle sessions
	OnlyInside bool     // other programs run its hooks too; they do nothing unless this host is recognized
	OnlyAtTop  bool     // it reads configuration only in the top folder of a git repository
	NotAtHome  bool     // it reads no project configuration in the user's home folder
}

// Place is the place where a host is connected.
type Place struct {
	Folder string // of the user
	Home   string // of the user
	User   bool   // for all folders of the user
}

// Scope returns the folder in which the host is connected; "" means all folders of the user.
func (p *Place) Scope() string {
	if p.User {
		return ""
	}
	return p.Folder
}

// Format is the syntax in which a host reads a configuration file.
type Format int

// The formats of configuration files.
const (
	JSON          Format = iota // without comments
	CommentedJSON               // with comments, but without trailing commas
	LaxJSON                     // with comments and trailing commas
	TOML
)

// File describes a configuration file and Mailroom's entries in it.
type File struct {
	// Paths returns the possible paths. Mailroom changes the file that contains its tools, or else the last file
	// that exists, or else the first.
	Paths  func(p *Place) []string
	Format Format
	NoMark bool // the host does not read a file that begins with a byte order mark

	Servers  string              // the object that holds the tools of each server by name
	Entry    string              // the name of our server; "" is mailroom
	Server   func(s *Server) any // our server there, a struct
	Optional []string            // names of its optional values
	Words    []Word              // texts in lists
	Rule     *Rule               // a value of an object
	Hooks    []Entry             // by event, in the object "hooks"
	Script   string              // the program, in which the line `const COMMAND = []` is replaced
	// Next is the program that also serves the host's next generation. It replaces Script if the user asks for it.
	Next string
	Idle bool // the program wakes idle sessions; it is installed only if the user asks for it
}

// EntryName returns the name of our server.
func (f *File) EntryName() string { return cmp.Or(f.Entry, "mailroom") }

// Server is the command that starts the tools, and how the host uses them.
type Server struct {
	Program string
	Args    []string
	Ask     bool // the host asks its user before using a tool
}

// Word is a text in a list.
type Word struct {
	Text    string
	Path    []string // names on the path to the list
	Project bool     // only if one project is connected
	Unasked bool     // only if the host does not ask before using a tool
	Spare   bool     // a connection is complete without it
}

// Rule is a value that decides whether the host asks before using a tool.
type Rule struct {
	Object, Name string
	Ask, Allow   string // "" is no value
}

// Entry is a hook in a configuration file.
type Entry struct {
	Event   string     // the host's name of the event
	Kind    hosts.Kind // kind of the event
	Runs    string     // another event of `mailroom hook` to run instead; it has no kind
	Timeout int        // in the host's unit
	Async   bool       // the session does not wait for it, and it can wake the session
	Names   bool       // its command line includes the path of the host's program
}

// Setting is a value in one of the host's own files.
type Setting struct {
	Paths func(p *Place) []string // of the files, in JSON or TOML
	Names func(p *Place) []string // on the path to the value; nil: the value has no effect there
	Is    any                     // a value that has an effect
	Says  string                  // the effect
}

// CallTime describes how long a host waits for the result of a tool call, and where its configuration sets this
// time.
type CallTime struct {
	Key      string        // in the object of a server
	Unit     time.Duration // of its value
	Unsaid   time.Duration // default without Key; the shortest of all versions of the host
	Most     bool          // no call takes longer than Unsaid, whatever the configuration sets
	Variable string        // environment variable that replaces Unsaid, in milliseconds
}

// Sessions describes how the host runs sessions and how a session is woken.
type Sessions struct {
	Unproved bool // its process outlives sessions, so it does not prove that a session lives
	Shared   bool // its sessions share a process
	Streams  bool // it runs our plugin, which keeps a stream open, instead of hooks

	// EndsByItself reports whether the host, run by this command line, exits after its answer, so that there is no
	// session to wake. It is nil if a background process cannot wake the host.
	EndsByItself func(words []string) bool
	// GivePrompt returns the arguments of the host's program that give a session a prompt as soon as it is idle.
	GivePrompt func(session, prompt string) []string
	// Inbox is the environment variable with the path of a session's socket, set for processes that the session
	// starts; "" if there is none. ToInbox returns the data that gives a session a prompt through the socket as
	// soon as it is idle. No hook reports that prompt.
	Inbox   string
	ToInbox func(session, prompt string) []byte
}

// Hooks describes what the host's hooks report and which answers the host accepts.
type Hooks struct {
	Form    func(event, text string) any // returns an answer with text for the model, as a JSON value
	Nothing string                       // an answer without anything to show
	Dismiss any                          // an empty answer to our own prompt, so that no turn begins
	OwnKind hosts.Kind                   // of the event of a prompt with which Mailroom begins or continues a turn
	Prompts []Prompt                     // prompts that neither the user nor Mailroom has written
	Shows   bool                         // it shows the answer to the end of a turn to its user
	Forgets bool                         // a resumed session does not restore the answer to its start
	Bytes   bool                         // it limits the bytes of an answer; others limit its UTF-16 units
}

// Prompt identifies a prompt by its beginning.
type Prompt struct {
	Begins string     // "" is an empty prompt
	Kind   hosts.Kind // of the event; "" is none
}

// Kind returns the kind of an event with the host's name, or "" if hooks report no event of that name.
func (h *Host) Kind(event string) hosts.Kind {
	for i := range h.Files {
		for _, e := range h.Files[i].Hooks {
			if e.Event == event && e.Runs == "" {
				return e.Kind
			}
		}
	}
	return ""
}

// Transcript describes how a host stores a session: in files with one JSON object a line.
type Transcript struct {
	Path   func(session string) string // returns the path if events do not report it; nil if they all do
	Late   bool                        // a shown message may never appear in it, though the model has it
	Speaks func(line *Line) bool       // reports whether a line is the model's
	Said   func(line *Line) bool       // reports whether a line is the user's; nil if that is unknown
	Drops  func(line *Line) bool       // reports whether a line is omitted when the session is resumed; nil: none
	Parts  func(path string) []string  // returns all files in order, given the one that the host names; nil: only that
}
