package program_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/orchestrator/program"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	must(t, os.WriteFile(filepath.Join(folder, "tool"), []byte("#!/bin/sh\n"), 0o700))
	must(t, os.WriteFile(filepath.Join(folder, "plain"), []byte("text"), 0o600))
	must(t, os.Mkdir(filepath.Join(folder, "bin"), 0o700))
	marker := filepath.Join(folder, "ran")
	for text, want := range map[string]string{
		"cat": "", "  cat -n | sort ": "", "cd / && pwd": "", "A=1 B='2' cat": "", "./tool x": "",
		filepath.Join(folder, "tool"): "",
		"if true; then cat; fi":       "", "touch " + marker: "", "exec cat": "", ": # nothing": "",
		"cat <<X\n$(\nX": "cannot read",
		// Only the shell can evaluate these.
		`"$HOME/no-such-tool"`: "", "$EDITOR x": "", "PATH=/nowhere no-such-tool": "", "(no-such-tool)": "",
		"`no-such-tool`": "", "~nobody-at-all/x": "", "A=1": "",
		// The errors of invalid commands.
		"": "no command given", " \n\t": "no command given", "cat\x00": "NUL", "cat \xff": "UTF-8",
		"cat " + strings.Repeat("x", 4096): "the limit is 4096",
		"cat 'half":                        "cannot read the command", "cat (": "cannot read the command",
		"cat | | sort":    "cannot read the command",
		"no-such-tool -x": "no-such-tool not found", "A=1 no-such-tool": "no-such-tool not found",
		"./no-such-tool":         folder + "/no-such-tool does not exist",
		"~/no-such-tool-at-home": "not found", "./plain": "chmod +x " + folder + "/plain", "./bin": "is a folder",
		"/no/such/tool": "/no/such/tool does not exist",
		"-c cat":        "must not start with -", "--no-such-tool": "must not start with -", "./plain/x": "not a directory",
	} {
		err := program.Check(text, folder)
		if (err == nil) != (want == "") || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("%.50q: %v; want %q", text, err, want)
		}
	}
	if err := program.Check("cat", folder+"/missing"); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("a missing folder: %v", err)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("a command was run")
	}
}
