package agents

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/program"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// Update describes an agent to add or change. A nil field keeps the value of an existing agent and gives a new
// agent the default.
type Update struct {
	Name             string
	Role             *string
	Deliver          *string // SCHEME or SCHEME:ADDRESS
	Fallback         *string // jsonl:PATH; "" removes it
	Timeout          *time.Duration
	StartCommand     *string
	SilentAfter      *time.Duration
	PlanModeRequired *bool
	Batch            *int
	Concurrency      *int
	AllowPrivate     *bool
	Secret           *string // of its webhook, whsec_ and base64; "" generates a new one
	Host             *string // the host of its files and commands; "" is any
	// PassEnv lists the variables of the daemon's environment to pass to its commands, see program.CheckPasses; ""
	// is the default.
	PassEnv *string
	Wake    *string // wake rules for its sessions, see orchestrator.ParseWakeRules; "" is the default
	// InboxView is whether the agent has a view of its inbox, for programs with plain SQL. By default a new agent
	// has one if a table with the view's name exists.
	InboxView *bool
	Folder    string   // where the commands in the update, if any, are to run; "" is the current folder
	Groups    []string // groups to join; they must exist
	By        string   // who requests the update
}

// Add adds an agent, or changes the fields of an existing agent that the update sets. It checks the transport's
// address as far as possible without using it. Messages that were held for the name, or because the agent's
// transport was disabled, become due. An agent with the name of a removed agent starts without the messages of the
// former one. Errors: invalid_params; not_found for a group.
func Add(ctx context.Context, l *ledger.Ledger, u Update) (agent ledger.Agent, created bool, err error) {
	if u.Name, err = orchestrator.CheckNewName("agent", u.Name); err != nil {
		return ledger.Agent{}, false, err
	}
	if err := checkUpdate(l, &u); err != nil {
		return ledger.Agent{}, false, err
	}
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		agent, created, err = AddIn(t, u)
		return err
	})
	return agent, created, err
}

// checkUpdate checks the values of an update and converts its transports to canonical form.
func checkUpdate(l *ledger.Ledger, u *Update) (err error) {
	if u.Folder == "" {
		if u.Folder, err = os.Getwd(); err != nil {
			return err
		}
	}
	for _, named := range []struct {
		what   string
		target *string
	}{{"deliver", u.Deliver}, {"fallback", u.Fallback}} {
		if named.target == nil || *named.target == "" && named.target == u.Fallback {
			continue
		}
		canonical, err := CheckDeliver(l, named.what, *named.target, u.Folder)
		if err != nil {
			return err
		}
		*named.target = canonical
		transport, address := l.TransportOf(canonical)
		if placing, ok := transport.(orchestrator.Placing); ok {
			if err := placing.CheckPlace(u.Name, address); err != nil {
				return &orchestrator.Error{Code: orchestrator.InvalidParams,
					Message: fmt.Sprintf("%s %q", named.what, canonical), Err: err}
			}
		}
	}
	if u.Fallback != nil && *u.Fallback != "" && !strings.HasPrefix(*u.Fallback, "jsonl:") {
		return orchestrator.Errorf(orchestrator.InvalidParams, "fallback %q: a fallback must be a file", *u.Fallback).
			WithHint("Use the form jsonl:PATH")
	}
	if u.PassEnv != nil {
		if *u.PassEnv, err = program.CheckPasses(*u.PassEnv); err != nil {
			return orchestrator.Errorf(orchestrator.InvalidParams, "pass_env: %v", err).
				WithHint("Separate names with commas, as in ANTHROPIC_API_KEY,PGPASSWORD. A * at the end of a name matches any characters")
		}
	}
	if u.Wake != nil {
		rules, err := orchestrator.ParseWakeRules(*u.Wake)
		if err != nil {
			return err
		}
		u.Wake = new(rules.String())
	}
	if u.StartCommand == nil || *u.StartCommand == "" || l.Transports["exec"] == nil {
		return nil
	}
	target, err := CheckDeliver(l, "start", "exec:"+*u.StartCommand, u.Folder)
	if err != nil {
		var own *orchestrator.Error
		if errors.As(err, &own) {
			own.Message = fmt.Sprintf("start %q", *u.StartCommand)
		}
		return err
	}
	*u.StartCommand = strings.TrimPrefix(target, "exec:")
	return nil
}

// CheckDeliver checks a target (SCHEME or SCHEME:ADDRESS) for an agent whose commands run in folder, and returns it
// in canonical form. Errors call the target by the name what, such as "deliver".
func CheckDeliver(l *ledger.Ledger, what, target, folder string) (string, error) {
	scheme, address, has := strings.Cut(target, ":")
	transport := l.Transports[scheme]
	if transport == nil || slices.Contains(userSchemes, scheme) {
		return "", orchestrator.Errorf(orchestrator.InvalidParams, "%s: %q is not a transport for agents", what,
			scheme).
			WithHint("The transports are: %s", strings.Join(schemes(l), ", "))
	}
	check := transport.Check
	if foldered, ok := transport.(orchestrator.Foldered); ok {
		check = func(address string) (string, error) { return foldered.CheckIn(folder, address) }
	}
	canonical, err := check(address)
	if err != nil {
		return "", &orchestrator.Error{Code: orchestrator.InvalidParams, Message: fmt.Sprintf("%s %q", what, target),
			Err: err}
	}
	if canonical != "" && IsOwnFile(l, canonical) {
		return "", orchestrator.Errorf(orchestrator.InvalidParams, "%s %q: the file belongs to the database", what,
			target).WithHint("Choose another file")
	}
	if !has && canonical == "" {
		return scheme, nil
	}
	return scheme + ":" + canonical, nil
}

// IsOwnFile reports whether a path leads, possibly through links, to the database, to one of the files beside it,
// or into its key folder. Agents' addresses must not lead there: opening and closing some of these files would drop
// SQLite's locks, and the file names in the key folder have a meaning.
func IsOwnFile(l *ledger.Ledger, path string) bool {
	info, statErr := os.Stat(path)
	beside := l.FilePrefix()
	for _, suffix := range []string{"", "-wal", "-shm", "-journal", "-turnstile", "-bell"} {
		if path == beside+suffix {
			return true
		}
		if own, err := os.Stat(beside + suffix); err == nil && statErr == nil && os.SameFile(own, info) {
			return true
		}
	}
	return isWithin(path, beside+"-signal")
}

// isWithin reports whether a path is a folder or lies in it, under this or another name of the folder.
func isWithin(path, folder string) bool {
	own, ownErr := os.Stat(folder)
	for ; ; path = filepath.Dir(path) {
		if path == folder {
			return true
		}
		if info, err := os.Stat(path); err == nil && ownErr == nil && os.SameFile(own, info) {
			return true
		}
		if path == filepath.Dir(path) {
			return false
		}
	}
}

func schemes(l *ledger.Ledger) []string {
	var names []string
	for scheme := range l.Transports {
		if !slices.Contains(userSchemes, scheme) {
			names = append(names, scheme)
		}
	}
	slices.Sort(names)
	return names
}

// AddIn adds or changes an agent, like Add, within a transaction. The update must have been checked.
func AddIn(t *ledger.Tx, u Update) (ledger.Agent, bool, error) {
	conf := t.Config()
	if _, isGroup := conf.Groups[u.Name]; isGroup {
		return ledger.Agent{}, false, orchestrator.Errorf(orchestrator.Conflict, "%s is the name of a group", u.Name).
			WithHint("Choose another name for the agent")
	}
	known := conf.Agents[u.Name]
	a := ledger.Agent{Name: u.Name, Deliver: "inbox", RegisteredBy: u.By, CreatedAt: t.Now}
	if known != nil {
		a = *known
	}
	u.apply(&a)
	if err := u.fits(t.Ledger, &a); err != nil {
		return ledger.Agent{}, false, err
	}
	if err := chooseFolder(t.Ledger, &u, known, &a); err != nil {
		return ledger.Agent{}, false, err
	}
	if err := chooseHost(t.Ledger, &u, &a); err != nil {
		return ledger.Agent{}, false, err
	}
	if err := mayReach(t.Ledger, &a); err != nil {
		return ledger.Agent{}, false, err
	}
	a.UpdatedAt = t.Now
	if known == nil {
		if err := makeRoomFor(t, a.Name); err != nil {
			return ledger.Agent{}, false, err
		}
	}
	if err := chooseInboxView(t, &u, known == nil); err != nil {
		return ledger.Agent{}, false, err
	}
	if err := Store(t, &a); err != nil {
		return ledger.Agent{}, false, err
	}
	if err := watchChanged(t, known, &a); err != nil {
		return ledger.Agent{}, false, err
	}
	for _, group := range slices.Compact(slices.Sorted(slices.Values(u.Groups))) {
		if err := joinGroup(t, group, a.Name); err != nil {
			return ledger.Agent{}, false, err
		}
	}
	reason := "the agent was added or its transport was changed"
	if known != nil && u.Deliver == nil {
		reason = "the message was held with SQL although its recipient exists"
	} else if err := ReleasePutOff(t, a.Name, reason); err != nil {
		return ledger.Agent{}, false, err
	}
	if err := ReleaseHeld(t, a.Name, reason); err != nil {
		return ledger.Agent{}, false, err
	}
	made, err := settleSecret(t, &u, &a)
	if err != nil {
		return ledger.Agent{}, false, err
	}
	if err := t.ConfigChanged(); err != nil {
		return ledger.Agent{}, false, err
	}
	conf = t.Config()
	a.Groups, a.NewSecret = groupsOf(conf, a.Name), made
	return a, known == nil, nil
}

// Lacks reports whether this host runs commands for an agent without passing them an environment variable.
func Lacks(a *ledger.Agent, variable string) bool {
	runs := a.StartCommand != "" || strings.HasPrefix(a.Deliver, "exec:")
	return runs && !a.Away() && !program.Passes(a.PassEnv, variable)
}

// InboxViews manages the document's own views of agents' inboxes, NAME_inbox, in a database that has them. An agent
// has one only on request, because each connection reads the definitions of all views. That takes 0.4 million
// instructions for each agent; the rest of a command takes 12 million.
type InboxViews interface {
	InboxViews() ([]string, error) // the agents that have a view
	// HasInboxTable reports whether a program has created a table with the name and the columns of an agent's view.
	HasInboxTable(agent string) (bool, error)
	// MakeInboxView creates the view of an agent at the given time. The contents of such a table become the agent's
	// unread messages. Error: conflict if something else has the name.
	MakeInboxView(agent, at string) error
	DropInboxView(agent string) error
}

// chooseInboxView creates or drops the view of an agent's inbox as the update requires.
func chooseInboxView(t *ledger.Tx, u *Update, isNew bool) error {
	d, ok := t.Driver.(InboxViews)
	if !ok {
		return nil
	}
	switch {
	case u.InboxView != nil && !*u.InboxView:
		return d.DropInboxView(u.Name)
	case u.InboxView == nil && !isNew:
		return nil
	case u.InboxView == nil:
		if there, err := d.HasInboxTable(u.Name); err != nil || !there {
			return err
		}
	}
	return d.MakeInboxView(u.Name, t.Now)
}

// makeRoomFor prepares a new or removed name for a new agent. The name is no longer marked as removed, and the new
// agent does not get the messages of the former one.
func makeRoomFor(t *ledger.Tx, name string) error {
	if _, err := orchestrator.CheckNewName("agent", name); err != nil {
		return err
	}
	removed, err := RemovedAt(t.Conn, name)
	if err != nil || removed == "" {
		return err
	}
	if err := t.NoteFormer(name); err != nil {
		return err
	}
	return t.Run(`DELETE FROM removed_agents WHERE name = ?`, name)
}

// mayReach returns an error for an address that cannot be reached without a permission that the agent does not
// have.
func mayReach(l *ledger.Ledger, a *ledger.Agent) error {
	transport, address := l.TransportOf(a.Deliver)
	if reaching, ok := transport.(orchestrator.Reaching); ok && !a.AllowPrivate && reaching.IsPrivate(address) {
		return orchestrator.Errorf(orchestrator.InvalidParams,
			"deliver %q: a webhook to this machine or a private network requires permission",
			a.Deliver).
			WithHint("To allow the address, run `mailroom agent add %s --deliver %s --allow-private`", a.Name,
				orchestrator.ShellWord(a.Deliver))
	}
	return nil
}

// chooseFolder sets the folder in which an agent's commands run: the folder of the update that sets them. All
// commands of an agent run in one folder. An update that would move a command that it does not set is refused.
func chooseFolder(l *ledger.Ledger, u *Update, known, a *ledger.Agent) error {
	runs := func(a *ledger.Agent) bool {
		transport, _ := l.TransportOf(a.Deliver)
		_, foldered := transport.(orchestrator.Foldered)
		return foldered
	}
	namesDeliver, namesStart := u.Deliver != nil && runs(a), u.StartCommand != nil && a.StartCommand != ""
	if !namesDeliver && !namesStart {
		return nil
	}
	if known != nil && known.Folder != u.Folder {
		for kept, command := range map[string]bool{"exec": !namesDeliver && runs(a), "start": !namesStart &&
			a.StartCommand != ""} {
			if command {
				return orchestrator.Errorf(orchestrator.Conflict,
					"the %s command of %s runs in %s, but the new command would run in %s", kept, a.Name, known.Folder,
					u.Folder).
					WithHint("Run `mailroom agent add` in %s, or specify both commands in one call", known.Folder)
			}
		}
	}
	a.Folder = u.Folder
	return nil
}

func (u *Update) apply(a *ledger.Agent) {
	set(&a.Role, u.Role)
	if u.Deliver != nil && *u.Deliver != a.Deliver {
		a.AllowPrivate = false // the permission was for the previous address
	}
	set(&a.Deliver, u.Deliver)
	set(&a.Fallback, u.Fallback)
	set(&a.StartCommand, u.StartCommand)
	set(&a.PassEnv, u.PassEnv)
	set(&a.Wake, u.Wake)
	set(&a.PlanModeRequired, u.PlanModeRequired)
	set(&a.Batch, u.Batch)
	set(&a.Concurrency, u.Concurrency)
	set(&a.AllowPrivate, u.AllowPrivate)
	if u.Deliver != nil {
		a.Disabled = ""
	}
	if u.Timeout != nil {
		a.TimeoutSeconds = int(*u.Timeout / time.Second)
	}
	if u.SilentAfter != nil {
		a.SilentAfter = int(*u.SilentAfter / time.Second)
	}
}

// fits returns an error if an update sets an option that has no effect for the agent's transport.
func (u *Update) fits(l *ledger.Ledger, a *ledger.Agent) error {
	transport, _ := l.TransportOf(a.Deliver)
	refuse := func(what, hint string) error {
		return orchestrator.Errorf(orchestrator.InvalidParams,
			"%s: this option has no effect for an agent with the transport %s", what, a.Deliver).WithHint("%s", hint)
	}
	_, table := transport.(orchestrator.SetTransport)
	_, slotted := transport.(orchestrator.Slotted)
	_, reaching := transport.(orchestrator.Reaching)
	switch {
	case transport == nil: // the transport of another program
	case u.Batch != nil && *u.Batch > 1 && (table || transport.MaxBatch() == 1):
		return refuse("batch", "Only exec:COMMAND, dir:ROOT, and jsonl:PATH support a batch")
	case u.Concurrency != nil && *u.Concurrency > 1 && !slotted:
		return refuse("concurrency", "Only exec:COMMAND supports `concurrency`. A command for --start runs one session at a time")
	case u.AllowPrivate != nil && *u.AllowPrivate && !reaching:
		return refuse("allow_private", "Only webhook:URL supports `allow_private`")
	case u.PassEnv != nil && *u.PassEnv != "" && !slotted && a.StartCommand == "":
		return refuse("pass_env", "Only exec:COMMAND and a start command support `pass_env`")
	}
	return nil
}

func set[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}

// Store inserts or replaces the row of an agent.
func Store(t *ledger.Tx, a *ledger.Agent) error {
	return t.Run(`
		INSERT INTO agents (`+ledger.AgentColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (name) DO UPDATE SET role = excluded.role, deliver = excluded.deliver, fallback = excluded.fallback,
		    timeout_seconds = excluded.timeout_seconds, start_command = excluded.start_command,
		    silent_after_seconds = excluded.silent_after_seconds, plan_mode_required = excluded.plan_mode_required,
		    updated_at = excluded.updated_at, batch = excluded.batch, concurrency = excluded.concurrency,
		    allow_private = excluded.allow_private, folder = excluded.folder, disabled = excluded.disabled, host = excluded.host,
		    pass_env = excluded.pass_env, wake = excluded.wake`,
		a.Name, a.Role, a.Deliver, a.Fallback, a.TimeoutSeconds, a.StartCommand, a.SilentAfter, a.PlanModeRequired,
		a.RegisteredBy, a.CreatedAt, a.UpdatedAt, a.Batch, a.Concurrency, a.AllowPrivate, a.Folder, a.Disabled, a.Host,
		a.PassEnv, a.Wake)
}

// ReleaseHeld makes messages deliverable that were held because no agent had the recipient's name.
func ReleaseHeld(t *ledger.Tx, name, why string) error {
	return releaseRows(t, ledger.Live+" AND held <> 0", "held = 0", name, why)
}

// ReleasePutOff makes messages due now whose delivery the recipient or its transport had postponed.
func ReleasePutOff(t *ledger.Tx, name, why string) error {
	return releaseRows(t, ledger.PutOff+" AND lease_token = ''", "next_attempt_at = ''", name, why)
}

func releaseRows(t *ledger.Tx, which, set, name, why string) error {
	which += " AND recipient = ?1"
	if err := t.Note(ledger.Selection{Where: which, Arg: name}, tracing.Released, why); err != nil {
		return err
	}
	return t.Run(`UPDATE agent_message SET `+set+` WHERE `+which, name)
}
