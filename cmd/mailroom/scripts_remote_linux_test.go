package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"mailroom/orchestrator/orchestratortest/helper"
)

// hereOnly lists the scripts that do not run with a database behind ssh, with the reason.
var hereOnly = map[string]string{
	"serve": "a daemon", "serve_otlp": "the same", "serve_sessions": "the same", "signal_doctor": "the same", "invite": "the same", "console": "the same",
	"ralph_ack": "environments that change: there it is that of the connection", "exec_transport": "the same", "demo": "the same",
	"host_sessions": "hosts whose processes end, which is not seen from there",
}

// TestScriptsOverSSH runs the scripts with databases behind a program that stands in for ssh.
func TestScriptsOverSSH(t *testing.T) {
	helper.Long(t)
	t.Parallel()
	runScripts(t, without(without(scripts(t), aboutFiles), hereOnly), inFile, func(e *testscript.Env) {
		bin := filepath.Join(t.TempDir(), "bin")
		if err := os.Mkdir(bin, 0o700); err != nil {
			t.Error(err)
		}
		const ssh = "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nexport MAILROOM_DB=\nexec sh -c \"$3\"\n"
		if err := os.WriteFile(filepath.Join(bin, "ssh"), []byte(ssh), 0o700); err != nil {
			t.Error(err)
		}
		sockets := filepath.Join(bin, "run")
		if err := os.Mkdir(sockets, 0o700); err != nil {
			t.Error(err)
		}
		e.Setenv("PATH", bin+string(os.PathListSeparator)+e.Getenv("PATH"))
		e.Setenv("XDG_RUNTIME_DIR", sockets)
		for _, name := range []string{"MAILROOM_DB", "OTHER_DB", "EMPTY_DB"} {
			e.Setenv(name, "ssh://studio"+e.Getenv(name))
		}
		e.Defer(func() { endHolders(t, filepath.Join(sockets, "mailroom")) })
	})
}
