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

	NeverAsks  bool     // it never asks its user before using a tool
	Allows     []string // arguments with which it does not ask before using our tools; if empty, the configuration decides
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
	// The program that also serves the host's next generation. It replaces Script if the user asks for it.
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

// Entry is a hook in a configuration.
type Entry struct {
	Event   string     // by the host's name for it
	Kind    hosts.Kind // of it
	Runs    string     // another event of `mailroom hook` than this, which has no kind
	Timeout int        // in the host's unit
	Async   bool       // the session does not wait for it, and is woken by it
	Names   bool       // its command line names where the host's program lies
}

// Setting is a value in a file of the host's own.
type Setting struct {
	Paths func(p *Place) []string // of the files, in JSON or TOML
	Names func(p *Place) []string // on the way to the value; nil: it does not count there
	Is    any                     // a value that has an effect
	Says  string                  // the effect
}

// CallTime is how long a host waits for the answer to the call of a tool, and where its configuration has that.
type CallTime struct {
	Key      string        // in the object of a server
	Unit     time.Duration // of its value
	Unsaid   time.Duration // where the configuration does not have it; the shortest that a version of the host has
	Most     bool          // no call takes longer than Unsaid, whatever the configuration has
	Variable string        // of the environment, with milliseconds in place of Unsaid
}

// Sessions is how the host runs sessions, and how one is woken.
type Sessions struct {
	Unproved bool // its process outlives a session, and proves nothing
	Shared   bool // its sessions share a process
	Streams  bool // it runs a plugin of ours in place of hooks, which keeps a stream running

	// EndsByItself reports whether the host, run by this command line, ends after its answer, so that there is nothing to
	// wake; nil if a process in the background cannot wake it.
	EndsByItself func(words []string) bool
	// GivePrompt is the command, after the host's program, that gives a session a prompt as soon as it is idle.
	GivePrompt func(session, prompt string) []string
	// Inbox is the variable with the path of a session's socket, in the environment of what the session starts; "": it has
	// none. ToInbox returns what gives a session a prompt there as soon as it is idle. No hook reports that prompt.
	Inbox   string
	ToInbox func(session, prompt string) []byte
}

// Hooks is what the host's hooks report, and what it takes for an answer.
type Hooks struct {
	Form    func(event, text string) any // an answer with text for the model, as a value of JSON
	Nothing string                       // an answer without anything to show
	Dismiss any                          // an answer to a prompt of ours without anything to show, so that no turn begins
	OwnKind hosts.Kind                   // of the event of a prompt by which Mailroom begins a turn, or goes on with one
	Prompts []Prompt                     // that neither its user nor Mailroom has written
	Shows   bool                         // what it is answered at the end of a turn it shows to its user
	Forgets bool                         // what it is answered when a session starts is not restored when the session is resumed
	Bytes   bool                         // it counts the bytes of an answer; others count its UTF-16 units
}

// Prompt is a prompt that is known by how it begins.
type Prompt struct {
	Begins string     // "" is an empty one
	Kind   hosts.Kind // of the event; "" is none
}

// Kind returns of which kind an event is, by the host's name for it; "" if hooks report none of that name.
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

// Transcript is how a host keeps a session: in files with a JSON object on each line.
type Transcript struct {
	Path   func(session string) string // where it lies, if an event does not say so; nil if all do
	Late   bool                        // it may never have what was shown, though the model has it
	Speaks func(line *Line) bool       // whether a line is what the model has said
	Said   func(line *Line) bool       // whether one is what its user has said; nil if it cannot be told
	Drops  func(line *Line) bool       // whether one is left out when the session is resumed; nil is none
	Parts  func(path string) []string  // the files of which the host names one, in their order; nil is that one
}
