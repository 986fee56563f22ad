package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3"
	"github.com/rogpeppe/go-internal/testscript"

	"mailroom/commands"
	"mailroom/commands/surface/web"
	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/helper"
	"mailroom/orchestrator/orchestratortest/torture"
	"mailroom/orchestrator/store/postgres"
	"mailroom/orchestrator/store/postgres/postgrestest"
)

var update = flag.Bool("update", false, "write what the scripts see into their golden files")

// TestMain lets the test binary act as the program: scripts run it as `mailroom`, in a separate process.
func TestMain(m *testing.M) {
	testscript.Main(withOwnFolder{m}, map[string]func(){
		"mailroom": scripted,
		// For databases with a test's own tables and triggers, which no card declares.
		"mailroom-unguarded": func() { os.Exit(run(config())) },
		"mailroom-faulty":    faulty,
		"mailroom-clocked":   clocked,
		"mailroom-hasty":     hasty,
		"mailroom-rash":      rash,
		"courier":            courier,
		"phone":              phone,
		"torture-helper":     func() { os.Exit(torture.Helper(os.Args[1:], transports())) },
	})
}

// ownFolder is the folder of a test run.
var ownFolder string

// withOwnFolder runs the tests with a separate folder, which also replaces the user's home for the state of their
// programs.
type withOwnFolder struct{ *testing.M }

func (m withOwnFolder) Run() int {
	helper.OwnSignals()
	os.Setenv("MAILROOM_OUTPUT", "json") // tests read most answers
	if os.Getenv("LANG") == "" {         // as for a user created by `su`; a login sets it
		os.Setenv("LANG", "C.UTF-8")
	}
	var err error
	if ownFolder, err = os.MkdirTemp("", "mailroom-test-"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(ownFolder)
	os.Setenv("XDG_STATE_HOME", filepath.Join(ownFolder, "state"))
	return m.M.Run()
}

// scripted runs the program with the guard on the tables that each card declares. A daemon and the remote end of a
// connection run several commands at the same time, which the guard cannot distinguish.
func scripted() {
	c := config()
	if !slices.Contains(os.Args[1:], "serve") && !slices.Contains(os.Args[1:], "remote") {
		c.Catalogue.Guard = guardTables
	}
	os.Exit(run(c))
}

// standingTables may be accessed by every command. Source: dialects.md, "route".
var standingTables = []string{
	"agents", "removed_agents", "groups", "group_members", "settings", "signal_devices", "command_trace",
	"message_trace", "message_count", "traffic",
	"sqlite_schema", "sqlite_master", "sqlite_sequence", "sqlite_temp_master", "sqlite_temp_schema",
}

// guardTables fails a command that accesses a table that its card does not declare. A command whose card has no table
// to write only reads, and is offered as such: it may write nothing but the traces.
func guardTables(d *commands.Definition, l *ledger.Ledger) (release func() error) {
	card := d.Card()
	records := recordTables(l, card.Tables.Records)
	var mu sync.Mutex // deliveries run in separate goroutines
	var strays []string
	stop := l.Watch(func(op, table string) {
		allowed := card.Tables.Write
		if op == "read" {
			allowed = slices.Concat(card.Tables.Read, card.Tables.Write)
		}
		if op == "read" || !card.OnlyReads() {
			allowed = slices.Concat(allowed, records)
		}
		if strings.HasSuffix(table, "_inbox") && table != "agent_inbox" {
			return // an agent's view, which is created and removed with the agent
		}
		standing := slices.Contains(standingTables, table) &&
			(op == "read" || len(card.Tables.Write) > 0 || strings.HasSuffix(table, "_trace"))
		// These tables are read where the database is not trusted.
		checked := op == "read" && slices.Contains([]string{"tokens", "schedules", "signal_devices"}, table)
		if standing || checked || slices.Contains(allowed, table) {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if stray := op + " " + table; !slices.Contains(strays, stray) {
			strays = append(strays, stray)
		}
	})
	return func() error {
		stop()
		mu.Lock()
		defer mu.Unlock()
		if len(strays) > 0 {
			return fmt.Errorf("the card of %s does not declare: %s", d.Name, strings.Join(strays, ", "))
		}
		return nil
	}
}

// recordTables returns the tables that the Parts name for a command's actions on all kinds of records.
func recordTables(l *ledger.Ledger, does []string) (tables []string) {
	for _, p := range l.Parts {
		removed := slices.Contains(does, "removed") && (p.Forget != nil || p.AgentRemoved != nil)
		if p.Chore != nil && (removed || slices.Contains(does, "due")) {
			tables = append(tables, p.Chore.Table)
		}
		for _, rows := range p.Over {
			if removed || slices.Contains(does, "old") {
				tables = append(tables, rows.Table)
			}
		}
	}
	return tables
}

// TestScripts runs every script below testdata/script.
func TestScripts(t *testing.T) {
	t.Parallel()
	runScripts(t, scripts(t), inFile, nil)
}

// inFile returns the place of a script's database: a file in its folder.
func inFile(e *testscript.Env) string { return filepath.Join(e.WorkDir, "mailroom.db") }

// TestScriptsOnAServer runs the scripts that are not about a file with databases on a PostgreSQL server.
func TestScriptsOnAServer(t *testing.T) {
	helper.Long(t)
	t.Parallel()
	server := postgrestest.Start(t)
	runScripts(t, without(scripts(t), aboutFiles), func(*testscript.Env) string { return postgrestest.Place(server) }, nil)
}

// without removes scripts from a list.
func without(files []string, out map[string]string) []string {
	return slices.DeleteFunc(files, func(file string) bool {
		_, is := out[strings.TrimSuffix(filepath.Base(file), ".txtar")]
		return is
	})
}

// runScripts runs scripts, each with a database at a separate place. After the database was created, reach may change
// how the script accesses it.
func runScripts(t *testing.T, files []string, place func(*testscript.Env) string, reach func(*testscript.Env)) {
	testscript.Run(t, testscript.Params{
		Files:               files,
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("XDG_STATE_HOME", "")
			at := place(e)
			e.Setenv("MAILROOM_DB", at)
			e.Setenv("DATABASE", at) // independent of how it is accessed
			e.Setenv("OTHER_DB", at+"_other")
			e.Setenv("EMPTY_DB", at+"_empty")
			e.Setenv("MAILROOM_AGENT", "")
			e.Setenv("LC_ALL", "C.UTF-8")
			e.Setenv("MAILROOM_OUTPUT", "json")
			err := makeDatabase(e)
			if err == nil && reach != nil {
				reach(e)
			}
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": cmdStatus, "json": cmdJSON, "sql": cmdSQL, "keep": cmdKeep, "signal": cmdSignal,
			"until": cmdUntil, "ended": cmdEnded,
		},
	})
}

// aboutFiles are the scripts that are about a database in a file, with the reason.
var aboutFiles = map[string]string{
	"backup": "it is copied", "restore": "it is copied back", "trust": "it is moved",
	"command_line": "it is named by its path",
	"status":       "where it is not yet", "doctor": "its pages", "recount": "SQL that only SQLite has", "sql": "the same",
	"send_stdin_refused": "its trigger", "poll": "values of other types",
	"mistakes": "it is in folders, and copied",
}

// withoutDatabase are the scripts that begin without a database.
var withoutDatabase = []string{"demo", "doctor", "mcp", "route-inter-agent-messages", "status"}

// makeDatabase creates the database of a script.
func makeDatabase(e *testscript.Env) error {
	if slices.Contains(withoutDatabase, strings.TrimPrefix(filepath.Base(e.WorkDir), "script-")) {
		return nil
	}
	init := exec.Command("mailroom", "--db", e.Getenv("MAILROOM_DB"), "init")
	init.Env = append(os.Environ(), "HOME="+e.WorkDir, "XDG_STATE_HOME=")
	if out, err := init.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return setBeside(e)
}

// setBeside sets BESIDE to the prefix of the paths of files that belong to the database.
func setBeside(e *testscript.Env) error {
	at := e.Getenv("MAILROOM_DB")
	if postgres.IsAddress(at) {
		id, err := postgrestest.SQL(context.Background(), at, "SELECT value FROM settings WHERE key = 'database.id'")
		if err != nil {
			return err
		}
		at = filepath.Join(e.WorkDir, ".local", "state", "mailroom", id[0], "mailroom")
	}
	e.Setenv("BESIDE", at)
	return nil
}

func scripts(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir("testdata/script", func(path string, entry os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".txtar") {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	return files
}

// cmdStatus runs a program and checks its exit status: status N PROGRAM ARGS...
func cmdStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N program args...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if err != nil {
		var exit interface{ ExitCode() int }
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit status %d; want %d", got, want)
	}
}

// cmdJSON compares a value of the last line of standard output: json PATH WANT, as in json messages.0.payload.n 1.
// WANT is compared with the value as JSON, or with a string's text. The word missing stands for no value, len for the
// length of a list, and "-" for the whole object.
func cmdJSON(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: json path want")
	}
	got, _ := lookup(ts, args[0])
	if (got == args[1]) == neg {
		ts.Fatalf("%s is %s", args[0], got)
	}
}

// cmdKeep puts a value of the last line of standard output into an environment variable: keep PATH NAME.
func cmdKeep(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: keep path NAME")
	}
	got, ok := lookup(ts, args[0])
	if !ok {
		ts.Fatalf("there is no %s", args[0])
	}
	ts.Setenv(args[1], got)
}

// lookup finds a value in the last line of standard output.
func lookup(ts *testscript.TestScript, path string) (string, bool) {
	lines := strings.Split(strings.TrimSpace(ts.ReadFile("stdout")), "\n")
	dec := json.NewDecoder(strings.NewReader(lines[len(lines)-1]))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		ts.Fatalf("standard output is not JSON: %v", err)
	}
	for _, key := range strings.Split(path, ".") {
		if path == "-" {
			break
		}
		switch at := v.(type) {
		case map[string]any:
			next, ok := at[key]
			if !ok {
				return "missing", false
			}
			v = next
		case []any:
			if key == "len" {
				v = json.Number(strconv.Itoa(len(at)))
				continue
			}
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(at) {
				return "missing", false
			}
			v = at[i]
		default:
			return "missing", false
		}
	}
	if s, ok := v.(string); ok {
		return s, true
	}
	b, err := orchestrator.JSON(v)
	ts.Check(err)
	return string(b), true
}

// cmdSQL runs a statement on a database as another program does, and prints its rows, columns separated by |: sql
// FILE STATEMENT.
func cmdSQL(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: sql file statement")
	}
	path := ts.MkAbs(args[0])
	if address := ts.Getenv("MAILROOM_DB"); args[0] == "mailroom.db" && postgres.IsAddress(address) {
		path = address
	}
	db, err := enginetest.OpenPlain(path)
	ts.Check(err)
	defer db.Close()
	rows, err := db.Query(args[1])
	if (err != nil) != neg {
		ts.Fatalf("%v", err)
	}
	if err != nil {
		return
	}
	defer rows.Close()
	columns, err := rows.Columns()
	ts.Check(err)
	for rows.Next() {
		cells := make([]sql.NullString, len(columns))
		targets := make([]any, len(columns))
		for i := range cells {
			targets[i] = &cells[i]
		}
		ts.Check(rows.Scan(targets...))
		texts := make([]string, len(cells))
		for i, c := range cells {
			texts[i] = c.String
		}
		fmt.Fprintln(ts.Stdout(), strings.Join(texts, "|"))
	}
	ts.Check(rows.Err())
}

// cmdSignal sends a signal to the process whose number is in a file: signal TERM FILE.
func cmdSignal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: signal TERM|INT|KILL file")
	}
	number := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT,
		"KILL": syscall.SIGKILL}[args[0]]
	pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(args[1])))
	ts.Check(err)
	ts.Check(syscall.Kill(pid, number))
}

// cmdUntil repeats a program until its output matches: until REGEXP PROGRAM ARGS... Later commands use the last
// output.
func cmdUntil(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until regexp program args...")
	}
	wanted, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	again(ts, func() bool {
		err := ts.Exec(args[1], args[2:]...)
		return err == nil && wanted.MatchString(ts.ReadFile("stdout"))
	})
}

// cmdEnded waits for the end of the processes whose numbers are in files: ended FILE...
func cmdEnded(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: ended file...")
	}
	for _, file := range args {
		pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(file)))
		ts.Check(err)
		again(ts, func() bool { return syscall.Kill(pid, 0) != nil })
	}
}

// again waits until a condition holds. If it never does, the script fails when the tests time out.
func again(ts *testscript.TestScript, holds func() bool) {
	for !holds() {
		<-time.After(20 * time.Millisecond)
	}
}

// TestEveryCommandOwnsAScript checks that every command has a script with its name.
func TestEveryCommandOwnsAScript(t *testing.T) {
	t.Parallel()
	for _, d := range config().Catalogue.All() {
		path := filepath.Join("testdata", "script", d.Name+".txtar")
		content, err := os.ReadFile(path)
		if err != nil {
			t.Errorf("%s has no script: %v", d.Name, err)
			continue
		}
		runs := func(line string) bool {
			return strings.Contains(strings.ReplaceAll(string(content), "-", "_"),
				strings.ReplaceAll(strings.TrimPrefix(line, "mailroom "), "-", "_"))
		}
		if !slices.ContainsFunc(d.CommandLines(), runs) && !strings.Contains(string(content), d.Name) {
			t.Errorf("%s never runs %s", path, d.CommandLine())
		}
	}
}

// TestWholeProgramIsDescribed checks that the description for HTTP contains all commands of the program, whose
// answers have no duplicate keys.
func TestWholeProgramIsDescribed(t *testing.T) {
	t.Parallel()
	if _, err := web.OpenAPI(config().Catalogue, "v1"); err != nil {
		t.Error(err)
	}
}

// TestCommandsDoNotClash checks that each command has a unique name, regardless of case, and a place on the command
// line that no other command or group has.
func TestCommandsDoNotClash(t *testing.T) {
	t.Parallel()
	taken, groups := map[string]string{}, map[string]string{}
	for _, d := range config().Catalogue.All() {
		for _, key := range append(d.CommandLines(), strings.ReplaceAll(d.Name, "-", "_")) {
			key = strings.ToLower(key)
			if other, twice := taken[key]; twice {
				t.Errorf("%s and %s are both %s", other, d.Name, key)
			}
			taken[key] = d.Name
		}
		for i := 1; i < len(d.Path); i++ {
			groups[strings.ToLower("mailroom "+strings.Join(d.Path[:i], " "))] = d.Name
		}
	}
	for place, name := range groups {
		if other, hides := taken[place]; hides {
			t.Errorf("%s stands in the group %s, which is the command %s", name, place, other)
		}
	}
}

// TestCards reads every card completely.
func TestCards(t *testing.T) {
	t.Parallel()
	for _, d := range config().Catalogue.All() {
		card := d.Card()
		if card.Tables.Read == nil || card.Tables.Write == nil || card.RequiredTools == nil ||
			card.CFRCompliance == nil {
			t.Errorf("%s: the front matter lacks a list, be it an empty one", d.Name)
		}
		if want := strings.ReplaceAll(d.Name, "-", "_"); card.Action != want {
			t.Errorf("%s: action is %s; want %s", d.Name, card.Action, want)
		}
		for _, section := range []string{"## Purpose", "## Parameters", "## Usage notes", "## Examples"} {
			if !strings.Contains(card.Body, section) {
				t.Errorf("%s: the card has no section %q", d.Name, section)
			}
		}
		taken := map[string]bool{}
		for i := range d.Params() {
			p := &d.Params()[i]
			for _, place := range []string{"--" + p.Flag(), p.Arg} {
				if place != "" && taken[place] {
					t.Errorf("%s: two parameters are %s", d.Name, place)
				}
				taken[place] = true
			}
			if !slices.Contains([]string{"", "1", "2", "3", "4", "rest"}, p.Arg) {
				t.Errorf("%s: the parameter %s is argument %s", d.Name, p.Name, p.Arg)
			}
			name := p.Name
			if !strings.Contains(card.Body, name) && !strings.Contains(card.Body, strings.ToUpper(name)) {
				t.Errorf("%s: the card does not mention the parameter %s", d.Name, name)
			}
		}
		if _, err := d.Schema().Resolve(nil); err != nil {
			t.Errorf("%s: schema: %v", d.Name, err)
		}
	}
}
