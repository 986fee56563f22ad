//go:build hosts

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

func dump(t *testing.T, k *desk, what string) {
	out, _ := exec.Command("sh", "-c", "for f in $(find "+k.folder+"/.gemini -name 'session-*'); do echo FILE $f; cut -c1-1500 $f; done").CombinedOutput()
	t.Logf("%s %s\n%s", what, k.standings(), out)
}

func body(t *testing.T, r *request, what string) {
	b, _ := json.MarshalIndent(r.body[r.said], "", " ")
	t.Logf("%s\n%s", what, b)
}

func TestExploreGemini(t *testing.T) {
	for _, how := range []string{"hooked", "asked", "answered", "start", "startanswered", "nudged"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			k := geminiDesk(t)
			first, second, answered := k.newGate(), k.newGate(), k.newGate()
			if how == "hooked" {
				k.hooked = fmt.Sprintf("$HOOK; if [ $EVENT = AfterTool ]; then %s; fi", answered.pass())
			}
			if how == "start" || how == "startanswered" {
				k.send("Look at the build.")
			}
			s := k.gemini("Do it.", "GEMINI_CLI_NO_RELAUNCH=true")
			r := s.asks()
			if how == "startanswered" || how == "start" {
				body(t, r, "first request")
			}
			if how == "nudged" {
				k.send("Look at the build.")
				r.says("Done.")
				r = s.asks()
				body(t, r, "second request")
			} else if how != "start" {
				r.calls("run_shell_command", map[string]any{"command": first.pass(), "description": "Wait"})
				first.reached()
				if how != "startanswered" {
					k.send("Look at the build.")
					first.open()
					if how == "hooked" {
						answered.reached()
					} else {
						r = s.asks()
						if how == "answered" {
							r.calls("run_shell_command", map[string]any{"command": second.pass(), "description": "Wait again"})
							second.reached()
						}
					}
				}
			}
			s.kill()
			dump(t, k, "killed "+how)
			k.hooked = ""
			k.geminiSettings(k.hookSettings())
			if os.Getenv("DAEMON") != "" {
				k.run("doctor")
			}
			s = k.runGemini(nil, "-p", "Are you there?", "--skip-trust", "-y", "-m", "gemini-2.5-flash", "--resume", k.rows(`SELECT session FROM host_sessions`)[0])
			r = s.asks()
			body(t, r, "resumed "+how)
			t.Log(k.standings())
			r.says("Yes.")
			s.ends()
			dump(t, k, "end "+how)
			t.Log(k.rows(`SELECT event, error, session FROM message_trace JOIN host_sessions`))
		})
	}
}
