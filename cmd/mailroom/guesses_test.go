package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// onlyLists matches the end of an answer that names no command to type, only where all commands are listed.
var onlyLists = regexp.MustCompile("(` lists them|To list the (commands|flags), run `[^`]*--help`)$")

// TestGuesses runs the commands that a user of gh, ntfy, NATS CLI, kubectl, git, redis-cli and docker typed before
// seeing the program: testdata/guesses.txt, where a column contains the expected outcome. A command that works ends
// with status 0; one that is rejected prints what to type instead.
func TestGuesses(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/guesses.txt")
	if err != nil {
		t.Fatal(err)
	}
	o := newOffice(t, "alice", "bob", "carol")
	o.run("group", "set", "reviewers", "alice", "bob")
	id := o.run("send", "bob", "about the migration", "--as", "alice")["message_id"].(string)
	counted := map[string]int{}
	for line := range strings.Lines(string(text)) {
		comes, guess, _ := strings.Cut(line, "\t")
		guess, _, _ = strings.Cut(guess, " # ")
		if !slices.Contains([]string{"does", "says", "waits", "no"}, comes) {
			t.Fatalf("%q is no outcome", comes)
		}
		counted[comes]++
		if comes == "waits" || comes == "no" { // it continues until Ctrl-C, or it is not understood
			continue
		}
		cmd := exec.Command("sh", "-c", strings.ReplaceAll(guess, "msg-01M8MC58T811YV3TSVQZMZAC82", id))
		cmd.Env, cmd.Dir = o.command().Env, t.TempDir()
		if err := os.WriteFile(filepath.Join(cmd.Dir, "report.md"), []byte("a report\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd.Stdin = strings.NewReader("a text")
		out, err := cmd.CombinedOutput()
		if does := err == nil; does != (comes == "does") || comes == "says" && onlyLists.Match(bytes.TrimSpace(out)) {
			t.Errorf("%s\n%s %v, and prints\n%s", guess, comes, err, out)
		}
	}
	t.Log(counted)
}
