package ledger

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/push"
	"mailroom/orchestrator/store"
)

// Settings holds the values in force: the stored settings, and the defaults of all others.
type Settings struct {
	Ladder          []time.Duration // waits before attempts 2, 3, 4; the last one repeats
	MaxRetries      int             // default for messages that do not set it
	deliveryTimeout time.Duration
	ClaimSize       int // maximum number of messages per claim
	CrashesPerRung  int // leases that may run out before one counts as a failed attempt
	ExpireAfter     time.Duration
	OverdueAfter    time.Duration
	KeepEnded       time.Duration // before clear_old
	KeepArchived    time.Duration
	KeepTraces      time.Duration
	BacklogLimit    int // live messages per recipient; 0 means no limit
	MaxHops         int
	InheritedHops   int
	walLimit        int64 // bytes at which checkpoint truncates
	Bounce          bool
	strictRoutes    bool            // for ralph messages
	Manager         string          // agent that is notified when another is silent or fails to start; "" means nobody
	StartLadder     []time.Duration // waits before a failed session is started again
	ConsolePort     int             // of `mailroom console`, on 127.0.0.1; 0 means not yet chosen
	BudgetBytes     int             // that messages may put into an agent's context per hour unasked; 0 means no limit
	HoldLoops       bool            // daemons hold back messages between agents that write to each other in a loop
	HookTurns       int             // that messages may cause in an agent host's session between two inputs of its user

	SignalHost       string   // host that has the keys of questions; "" means any host
	SignalURL        string   // https address of the phone app, without a path; "" means none
	PushHosts        []string // hosts that may receive pushes besides the known services
	AllowPrivatePush bool     // these hosts may be on this machine or in a private network
}

// Setting describes a setting: its key, its meaning, its default and its bounds.
type Setting struct {
	Key     string `json:"key"`
	Value   string `json:"value"`
	Ignored string `json:"ignored,omitempty"` // stored value that cannot be read and is ignored
	Default string `json:"default"`
	Bounds  string `json:"bounds"`
	About   string `json:"about"`

	// Local reports whether the setting can be changed only on the database's own machine and never over the network,
	// whatever rights the caller has. It is true for each setting that determines where this machine's daemon
	// connects, which files or programs of this machine are used, or where the person's phones connect. Otherwise an
	// administrator's token, which may be used from anywhere, would give access to all of these.
	Local bool `json:"local,omitempty"`

	parse func(s *Settings, value string) error
}

// Keys of settings that the program itself sets.
const (
	SignalHost  = "signal.host"  // host with the keys of questions
	ConsolePort = "console.port" // port of the console
)

// settingList lists all settings. Source: contract, "The ladder and retention".
var settingList = []Setting{
	{Key: "retry.ladder", Default: "30s,60s,120s", Bounds: "1 to 20 comma-separated durations, each from 10ms to 24h",
		About: "waiting times before the second, third, and later attempts; the last waiting time repeats",
		parse: func(s *Settings, v string) (err error) { s.Ladder, err = parseLadder(v); return err }},
	integer("retry.max_retries", "3", 0, 100, "number of retries of a message that does not set max_retries",
		func(s *Settings) *int { return &s.MaxRetries }),
	span("delivery.timeout", "300s", time.Second, time.Hour,
		"time limit of a delivery attempt, for agents that do not set a timeout",
		func(s *Settings) *time.Duration { return &s.deliveryTimeout }),
	integer("delivery.claim_size", "1000", 1, 10000, "number of messages that are claimed in one transaction",
		func(s *Settings) *int { return &s.ClaimSize }),
	integer("delivery.crashes_per_rung", "3", 1, 100,
		"number of times that processes may die while they deliver a message before Mailroom counts a failed attempt",
		func(s *Settings) *int { return &s.CrashesPerRung }),
	span("expiry.undelivered", "7d", time.Minute, 3650*orchestrator.Day,
		"time after which undelivered messages without a ttl expire",
		func(s *Settings) *time.Duration { return &s.ExpireAfter }),
	span("overdue.after", "5m", time.Second, 30*orchestrator.Day,
		"time after which undelivered messages are reported as overdue",
		func(s *Settings) *time.Duration { return &s.OverdueAfter }),
	span("retention.ended", "7d", 0, 3650*orchestrator.Day,
		"time after which delivered messages are archived, and failed, expired, and canceled messages are deleted",
		func(s *Settings) *time.Duration { return &s.KeepEnded }),
	span("retention.archive", "90d", 0, 3650*orchestrator.Day, "time after which archived messages are deleted",
		func(s *Settings) *time.Duration { return &s.KeepArchived }),
	span("retention.trace", "90d", 0, 3650*orchestrator.Day,
		"time between the deletion of a message and the deletion of its trace",
		func(s *Settings) *time.Duration { return &s.KeepTraces }),
	integer("backlog.limit", "0", 0, math.MaxInt32,
		"number of undelivered and unread messages of one recipient at which Mailroom rejects more messages to that recipient; 0: no limit",
		func(s *Settings) *int { return &s.BacklogLimit }),
	integer("hops.limit", "64", 1, 10000, "maximum number of answers in a chain of answers; Mailroom rejects more as a loop",
		func(s *Settings) *int { return &s.MaxHops }),
	integer("hops.inherited", "64", 1, 10000,
		"number of messages, not counting answers, that may cause one another within ten minutes before Mailroom rejects more messages from the commands of agents", func(s *Settings) *int { return &s.InheritedHops }),
	onOff("bounce", "on", "send an error_report to the sender of a message that failed or expired",
		func(s *Settings) *bool { return &s.Bounce }),
	onOff("ralph.strict_routes", "off",
		"ralph messages may use only the routes that the specification defines for their type",
		func(s *Settings) *bool { return &s.strictRoutes }),
	integer("hook.turns", "12", 1, 1000,
		"number of turns that messages may cause in a session of an agent host before its user enters something",
		func(s *Settings) *int { return &s.HookTurns }),
	integer("budget.bytes", "65536", 0, 1<<30,
		"maximum bytes of unrequested messages to add to an agent's context in one clock hour; further messages are only listed in a digest; 0: no limit",
		func(s *Settings) *int { return &s.BudgetBytes }),
	onOff("loop.hold", "off",
		"`mailroom serve` holds the messages between two agents for an hour if they exchange more than 30 messages within ten minutes while no person writes to either agent",
		func(s *Settings) *bool { return &s.HoldLoops }),
	{Key: "ralph.pm", Default: "pm", Bounds: "the name of an agent, or - for nobody",
		About: "agent that Mailroom notifies when another agent is silent for longer than its limit, or when the session of an agent cannot be started",
		parse: func(s *Settings, v string) (err error) {
			if s.Manager = ""; v != "-" {
				s.Manager, err = orchestrator.CheckName("ralph.pm", v)
			}
			return err
		}},
	local(integer(ConsolePort, "0", 0, math.MaxUint16,
		"port of `mailroom console` when no daemon serves it. 0: Mailroom chooses a free port on first use and then keeps it, because browsers store data per address and port",
		func(s *Settings) *int { return &s.ConsolePort })),
	{Key: "signal.url", Local: true, Default: "-",
		Bounds: "an address such as https://phone.example.com (http://localhost:PORT for a test on this machine), or - for none",
		About:  "address at which phones reach the app of `mailroom serve --phone`",
		parse:  func(s *Settings, v string) (err error) { s.SignalURL, err = push.ParseSignalURL(v); return err }},
	{Key: "signal.push_hosts", Local: true, Default: "-", Bounds: "hosts separated by commas, or - for none",
		About: "additional push services and ntfy servers; ntfy.sh and the push services of the browsers are always allowed",
		parse: func(s *Settings, v string) (err error) {
			if s.PushHosts = nil; v != "-" {
				s.PushHosts, err = push.ParseHosts(v)
			}
			return err
		}},
	local(onOff("signal.allow_private", "off", "allow hosts in signal.push_hosts that are on this machine or in a private network", func(s *Settings) *bool { return &s.AllowPrivatePush })),
	{Key: SignalHost, Local: true, Default: "-", Bounds: "the name of a host, or - for any",
		About: "for a database on a server: host that stores the keys for questions to the user. Only that host sends questions and alerts to the user",
		parse: func(s *Settings, v string) error {
			if s.SignalHost = ""; v != "-" {
				s.SignalHost = v
			}
			if v != "-" && !IsHostName(v) {
				return fmt.Errorf("%q is not a valid host name", v)
			}
			return nil
		}},
	{Key: "start.ladder", Default: "5s,30s,2m,10m", Bounds: "1 to 20 comma-separated durations, each from 10ms to 24h",
		About: "waiting times before a failed session is restarted; after the last one, Mailroom stops restarting the session until the next message",
		parse: func(s *Settings, v string) (err error) { s.StartLadder, err = parseLadder(v); return err }},
	{Key: "wal.limit", Default: "67108864", Bounds: "1048576 to 17179869184 bytes",
		About: "size above which `mailroom checkpoint` truncates the write-ahead log",
		parse: func(s *Settings, v string) error {
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil || n < 1<<20 || n > 16<<30 {
				return fmt.Errorf("%q is not a whole number within the bounds", v)
			}
			s.walLimit = n
			return nil
		}},
}

func local(s Setting) Setting {
	s.Local = true
	return s
}

func integer(key, preset string, low, high int, about string, field func(*Settings) *int) Setting {
	return Setting{Key: key, Default: preset, Bounds: fmt.Sprintf("%d to %d", low, high), About: about,
		parse: func(s *Settings, v string) error {
			n, err := strconv.Atoi(v)
			if err != nil || n < low || n > high {
				return fmt.Errorf("%q is not a whole number from %d to %d", v, low, high)
			}
			*field(s) = n
			return nil
		}}
}

func onOff(key, preset, about string, field func(*Settings) *bool) Setting {
	return Setting{Key: key, Default: preset, Bounds: "on or off", About: about,
		parse: func(s *Settings, v string) error {
			if v != "on" && v != "off" {
				return fmt.Errorf("must be `on` or `off`, but is %q", v)
			}
			*field(s) = v == "on"
			return nil
		}}
}

func span(key, preset string, low, high time.Duration, about string, field func(*Settings) *time.Duration) Setting {
	return Setting{Key: key, Default: preset, Bounds: orchestrator.FormatDuration(low) + " to " +
		orchestrator.FormatDuration(high), About: about,
		parse: func(s *Settings, v string) error {
			d, err := orchestrator.ParseDuration(v)
			if err != nil {
				return err
			}
			if d < low || d > high {
				return fmt.Errorf("must be from %[2]s to %[3]s, but is %[1]q", v, orchestrator.FormatDuration(low),
					orchestrator.FormatDuration(high))
			}
			*field(s) = d
			return nil
		}}
}

func parseLadder(v string) ([]time.Duration, error) {
	var rungs []time.Duration
	for part := range strings.SplitSeq(v, ",") {
		d, err := orchestrator.ParseDuration(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		if d < 10*time.Millisecond || d > orchestrator.Day {
			return nil, fmt.Errorf("each duration must be from 10ms to 24h, but one is %q", part)
		}
		rungs = append(rungs, d)
	}
	if len(rungs) > 20 {
		return nil, fmt.Errorf("the limit is 20 durations, but there are %d", len(rungs))
	}
	return rungs, nil
}

// settingsFrom returns the defaults overridden by the stored values. If this version cannot read a stored value, the
// default applies, and unread holds the error.
func settingsFrom(stored map[string]string) (s Settings, unread map[string]error) {
	unread = map[string]error{}
	for _, def := range settingList {
		if err := def.parse(&s, def.Default); err != nil {
			panic("default of " + def.Key + ": " + err.Error())
		}
		if v, ok := stored[def.Key]; ok {
			before := s
			if err := def.parse(&s, v); err != nil {
				s, unread[def.Key] = before, err
			}
		}
	}
	return s, unread
}

func findSetting(key string) (Setting, error) {
	for _, def := range settingList {
		if def.Key == key {
			return def, nil
		}
	}
	keys := make([]string, len(settingList))
	for i, def := range settingList {
		keys[i] = def.Key
	}
	return Setting{}, orchestrator.Errorf(orchestrator.NotFound, "there is no setting %q", key).
		WithHint("%s", cmp.Or(orchestrator.DidYouMean(key, keys), "To list the settings, run `mailroom setting list`"))
}

// Settings returns all settings with their current values.
func (l *Ledger) Settings(ctx context.Context) ([]Setting, error) {
	conf, err := l.Configuration(ctx)
	if err != nil {
		return nil, err
	}
	list := slices.Clone(settingList)
	for i := range list {
		list[i].Value = list[i].Default
		switch v, ok := conf.Stored[list[i].Key]; {
		case ok && conf.unreadable[list[i].Key] != nil:
			list[i].Ignored = orchestrator.Clip(strings.ToValidUTF8(v, "\uFFFD"))
		case ok:
			list[i].Value = v
		}
	}
	return list, nil
}

// SetSetting changes a setting; an empty value restores the default. Every process uses the new value from its next
// transaction on. Errors: not_found for an unknown key; invalid_params for a value out of bounds.
func (l *Ledger) SetSetting(ctx context.Context, key, value string) (Setting, error) {
	def, err := findSetting(key)
	if err != nil {
		return Setting{}, err
	}
	def.Value = value
	if value == "" {
		def.Value = def.Default
	}
	var scratch Settings
	if err := def.parse(&scratch, def.Value); err != nil {
		return Setting{}, orchestrator.Errorf(orchestrator.InvalidParams, "setting %s: %v", key, err).
			WithHint("Bounds: %s", def.Bounds)
	}
	return def, l.Write(ctx, store.Alone, func(t *Tx) error {
		if value == "" {
			if _, err := t.Exec(`DELETE FROM settings WHERE key = ?`, key); err != nil {
				return err
			}
		} else if err := t.StoreSetting(key, value); err != nil {
			return err
		}
		return t.ConfigChanged()
	})
}

// StoreSetting writes a row of the table settings.
func (t *Tx) StoreSetting(key, value string) error {
	_, err := t.Exec(store.StoreSetting, key, value, t.Now)
	return err
}

// Setting returns a setting with its current value. Error: not_found, with a hint that names the most similar keys.
func (l *Ledger) Setting(ctx context.Context, key string) (Setting, error) {
	if _, err := findSetting(key); err != nil {
		return Setting{}, err
	}
	list, err := l.Settings(ctx)
	for _, s := range list {
		if s.Key == key {
			return s, err
		}
	}
	return Setting{}, err
}
