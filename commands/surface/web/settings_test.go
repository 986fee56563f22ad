package web_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"mailroom/commands"
	"mailroom/commands/signal"
	"mailroom/commands/surface/surfacetest"
	"mailroom/commands/surface/web"
	"mailroom/orchestrator/schedules"
)

// TestSettingsOverTheNetwork checks that each setting either can be changed only on the machine of the database, or
// is harmless if a remote administrator changes it. Whoever adds a setting adds it here.
func TestSettingsOverTheNetwork(t *testing.T) {
	t.Parallel()
	f := newFort(t, web.Options{}, "boss")
	boss := f.Token("boss", true)
	table := map[string]struct {
		local bool
		value string
	}{
		"retry.ladder": {false, "1s"}, "retry.max_retries": {false, "1"}, "delivery.timeout": {false, "10s"},
		"delivery.claim_size":       {false, "10"},
		"delivery.crashes_per_rung": {false, "2"}, "expiry.undelivered": {false, "1d"}, "overdue.after": {false, "1m"},
		"retention.ended": {false, "1d"}, "retention.archive": {false, "1d"}, "retention.trace": {false, "1d"},
		"backlog.limit": {false, "10"},
		"hops.limit":    {false, "10"}, "hops.inherited": {false, "10"}, "hook.turns": {false, "6"}, "budget.bytes": {false, "10000"}, "loop.hold": {false, "on"},
		"bounce": {false, "off"}, "ralph.strict_routes": {false, "on"}, "ralph.pm": {false, "boss"},
		"start.ladder": {false, "10s"}, "wal.limit": {false, "2097152"},
		"console.port": {true, "20123"}, // address of a listener on this machine
		// Phones are paired there: a server of the app could read everything.
		"signal.url":           {true, "https://phone.example.com"},
		"signal.push_hosts":    {true, "10.0.0.5"},      // where the daemon connects to
		"signal.allow_private": {true, "on"},            // permits the daemon's own machine, too
		"signal.host":          {true, f.Router.Host()}, // which machine that is
	}
	settings, err := f.Router.Settings(t.Context())
	if err != nil || len(settings) != len(table) {
		t.Fatalf("%d settings and %d in the table: %v", len(settings), len(table), err)
	}
	for _, s := range settings {
		row, known := table[s.Key]
		if !known || row.local != s.Local {
			t.Errorf("%s: in the table %t, local there %t, in its declaration %t", s.Key, known, row.local, s.Local)
		}
		for _, params := range []string{fmt.Sprintf(`{"key":%q,"value":%q}`, s.Key, row.value),
			fmt.Sprintf(`{"key":%q,"default":true}`, s.Key)} {
			status, body := f.Run(boss, "setting_set", params)
			if refused := status == 403 &&
				strings.Contains(body, "mailroom setting set "+s.Key); refused != row.local ||
				!refused && status != 200 {
				t.Errorf("POST setting_set %s: %d %s", params, status, body)
			}
			_, body = f.tool(boss, "/mcp", "setting_set", params)
			if refused := strings.Contains(body, "permission_denied"); refused != row.local {
				t.Errorf("tool setting_set %s: %s", params, body)
			}
		}
		if row.local { // if refused, it is unchanged, and can be changed on this machine
			if now, err := f.Router.Setting(t.Context(), s.Key); err != nil || now.Value != s.Default {
				t.Errorf("%s is %q after it was refused: %v", s.Key, now.Value, err)
			}
			env := commands.Env{Engine: f.Router, Caller: commands.Caller{Admin: true},
				Catalogue: surfacetest.Catalogue()}
			d, err := env.Catalogue.Lookup("setting_set")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := d.Run(t.Context(), env,
				[]byte(fmt.Sprintf(`{"key":%q,"value":%q}`, s.Key, row.value))); err != nil {
				t.Errorf("setting %s here: %v", s.Key, err)
			}
		}
	}
}

// TestWaysRoundOverTheNetwork checks that no command lets a caller pass a forbidden setting or operation to another
// command.
func TestWaysRoundOverTheNetwork(t *testing.T) {
	t.Parallel()
	f := newFort(t, web.Options{}, "boss")
	boss := f.Token("boss", true)
	setting := `{"key":"signal.allow_private","value":"on"}`
	for _, row := range []forgery{
		{boss, "invoke", `{"name":"setting_set","params":` + setting + `}`},
		{boss, "route-inter-agent-messages", `{"ACTION":"setting_set","PAYLOAD":` + setting + `}`},
		{boss, "schedule_add", `{"name":"x","spec":"@every 1s","command":"setting_set","params":` + setting + `}`},
		{boss, "sql", `{"query":"UPDATE settings SET value = 'on'"}`},
		{boss, "sql", `{"query":"INSERT INTO schedules (name, spec, command) VALUES ('x', '@every 1s', 'demo')"}`},
		{boss, "orchestrator.setting_set", setting},
		{boss, "setting-set", setting},
	} {
		status, body := f.Run(row.token, row.command, row.params)
		_, answer := f.tool(row.token, "/mcp", row.command, row.params)
		if status == 200 || !strings.Contains(answer, `"isError":true`) && !strings.Contains(answer, `"error":{`) {
			t.Errorf("%s %s: %d %s; as a tool %s", row.command, row.params, status, body, answer)
		}
	}
	if s, err := f.Router.Setting(t.Context(), "signal.allow_private"); err != nil || s.Value != "off" {
		t.Errorf("signal.allow_private is %q: %v", s.Value, err)
	}
	if list, err := schedules.List(t.Context(), f.Router.Ledger); err != nil ||
		strings.Contains(fmt.Sprint(list), "setting_set") {
		t.Errorf("the schedules are %v, %v", list, err)
	}
	// A text that would name a file on the command line is an ordinary text here.
	if status, body := f.Run(boss, "send",
		`{"recipient":"boss","message_type":"note","payload":"@/etc/hostname"}`); status != 200 {
		t.Errorf("send: %d %s", status, body)
	}
	if status, body := f.Run(boss, "wait", `{"timeout":0}`); status != 200 ||
		!strings.Contains(body, `"payload":"@/etc/hostname"`) {
		t.Errorf("wait: %d %s", status, body)
	}
}

// TestParametersOverTheNetwork checks that each network parameter whose name suggests a file, a program or an address
// has a tag that restricts its values, or is listed as harmless.
func TestParametersOverTheNetwork(t *testing.T) {
	t.Parallel()
	harmless := map[string]string{
		"commands.name":   "it is described, not run",
		"agent_add.batch": "a number", "agent_add.concurrency": "a number", "agent_add.secret": "it is signed with",
		"doctor.try":        "a message, through what was named here",
		"deliver_all.wait":  "a switch",
		"agent_list.search": "what is looked for",
		"signal_ntfy.url":   "ntfy.sh, and hosts that were named here; nothing of it but the topic is sent",
	}
	suspicious := regexp.MustCompile(`(?i)\b(file|folder|path|root|command|address|url|host|transports?|network|png|exec|webhook)\b`)
	var refused []string
	for _, d := range append(surfacetest.Catalogue().All(), signal.Definitions()...) {
		if d.HereOnly {
			continue
		}
		for _, p := range d.Params() {
			if p.Remote != nil {
				refused = append(refused, d.Name+"."+p.Name)
				continue
			}
			if !suspicious.MatchString(p.Name + " " + p.Desc) {
				continue
			}
			if harmless[d.Name+"."+p.Name] == "" {
				t.Errorf("%s of %s, %q: give it a tag remote, or say here why anybody with an administrator's token may give it", p.Name, d.Name, p.Desc)
			}
			delete(harmless, d.Name+"."+p.Name)
		}
	}
	if len(harmless) > 0 {
		t.Errorf("there is none of %v any more", harmless)
	}
	if got := fmt.Sprint(refused); got != "[agent_add.deliver agent_add.fallback agent_add.allow_private agent_add.start agent_add.pass_env agent_add.host]" {
		t.Errorf("bounded over the network are %s", got)
	}
}
