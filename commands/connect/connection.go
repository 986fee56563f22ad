package connect

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agenthost"
)

// connection holds the values that connect writes into a host's configuration.
type connection struct {
	program, agent, database string // without a database, the host uses that of its folder
	host                     string // path of the host's own program; "" if unknown
	vocabularies             []string
	choices
	user  bool   // in all folders of the user
	id    string // of the database
	book  book
	spare bool // leave out the entries that are not essential
	allow bool // the user has asked that the host no longer ask
}

// choices holds what a person can choose for a connection.
type choices struct {
	Ask  bool `json:"ask,omitempty"`  // the host asks before it uses a tool
	Idle bool `json:"idle,omitempty"` // a program wakes idle sessions
	V2   bool `json:"v2,omitempty"`   // the plugin also supports the host's next generation
}

// choose sets a choice to anew, unless anew is nil.
func choose(choice, anew *bool) {
	if anew != nil {
		*choice = *anew
	}
}

// serve returns the words after the program's name with which the host starts the tools. They name the host, because
// other hosts read its file.
func (c *connection) serve(host string) []string {
	words := []string{"mcp", "--as", c.agent, "--vocabulary", strings.Join(c.vocabularies, ",")}
	if c.database != "" {
		words = append(words, "--db", c.database)
	}
	return append(words, "--host", host)
}

// hook returns the words of a command line that runs a hook, starting with the program.
func (c *connection) hook(host, event string) []string {
	words := []string{c.program, "hook", event, "--host", host, "--as", c.agent}
	if c.database != "" {
		words = append(words, "--db", c.database)
	}
	if c.user {
		words = append(words, "--scope", "user")
	}
	return words
}

// connectionOf returns the values for a host's configuration. Options that are not given keep their earlier values.
// Mailroom and the host are given as paths, because a host may be started with another PATH.
func connectionOf(env commands.Env, h *agenthost.Host, at *agenthost.Place, p Params) (*connection, error) {
	program, err := commands.OwnPath()
	if err != nil {
		return nil, orchestrator.Errorf(orchestrator.Unavailable, "cannot find the path of this program: %v", err)
	}
	c := &connection{user: at.User, program: program, database: env.Database(), book: bookOf(env), host: commands.PathOf(h.Name),
		vocabularies: p.Vocabulary}
	before, _ := c.book.findTools(h, at)
	if c.host == "" && exists(before.Host) {
		c.host = before.Host
	}
	if len(c.vocabularies) == 0 {
		c.vocabularies = before.Vocabularies
	}
	if len(c.vocabularies) == 0 {
		c.vocabularies = []string{"relay"}
	}
	c.choices = before.choices
	choose(&c.Ask, p.Ask)
	choose(&c.Idle, p.Idle)
	choose(&c.V2, p.V2)
	c.allow = p.Ask != nil && !*p.Ask
	if text := c.program + c.database + at.Folder + c.host; !utf8.ValidString(text) ||
		strings.ContainsFunc(text, unicode.IsControl) {
		return nil, orchestrator.Errorf(orchestrator.InvalidParams,
			"the path of the program, the database, or the folder has characters that a configuration cannot contain: %q", text)
	}
	for _, path := range []string{c.program, c.database} {
		if h.Replaces != nil && h.Replaces().MatchString(path) {
			return nil, orchestrator.Errorf(orchestrator.InvalidParams,
				"the path %q contains %s, which %s replaces with an environment variable", path,
				h.Replaces().FindString(path), h.Name).
				WithHint("Rename the file or folder so that its path has no dollar sign, or move the database to another path")
		}
	}
	return c, nil
}

// record returns the record of the connection, without the fields about a file.
func (c *connection) record(h *agenthost.Host, at *agenthost.Place) record {
	return record{
		Program: h.Name, Agent: c.agent, Vocabularies: c.vocabularies, choices: c.choices, Folder: at.Scope(),
		Database: c.database, ID: c.id,
		Command: c.program, Host: c.host,
	}
}

// findTools returns the record of the file that contains a host's tools.
func (b book) findTools(h *agenthost.Host, at *agenthost.Place) (r record, found bool) {
	text, path, err := read(filesOf(h, at, &connection{})[0].path)
	if err != nil {
		return record{}, false
	}
	return b.find(h.Name, at.Scope(), path, text)
}
