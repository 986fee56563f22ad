//go:build hosts

package main

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator/agenthost"
	"mailroom/orchestrator/orchestratortest/want"
)

// seat describes how a test uses a host.
type seat struct {
	desk  func(t *testing.T) *desk                       // without tools yet
	start func(k *desk, prompt string) *sitting          // starts a host with tools of k.speaks, and sends a prompt
	again func(k *desk, session, prompt string) *sitting // likewise, in an existing session
	// end is an event after which the host asks its model; "" if a plugin shows the messages.
	end   string
	shell string                              // the host's own tool
	at    func(command string) map[string]any // arguments of shell
	tools string                              // prefix of the names of Mailroom's tools

	says func(s *sitting, prompt string) // sends another prompt; nil if the host ends with its turn
	over func(s *sitting) bool           // reports whether the turn has ended; nil likewise

	troubled *regexp.Regexp // the host's output if a hook has failed; nil is none
}

// sitting is a session of bob in a host.
type sitting struct {
	*session
	seat
	live  live // nil in hosts with hooks
	turns int  // counted by turnEnds
}

// seats are the seats by host.
var seats = map[string]seat{
	"claude": {
		desk: claudeDesk, shell: "Bash", tools: "mcp__mailroom__",
		start: func(k *desk, prompt string) *sitting {
			s := k.claude()
			s.prompts(prompt)
			return &sitting{session: s}
		},
		again: func(k *desk, session, prompt string) *sitting {
			s := k.claude("--resume", session)
			s.prompts(prompt)
			return &sitting{session: s}
		},
		end: "PostToolUse",
		at: func(command string) map[string]any {
			return map[string]any{"command": command, "description": "Do it", "timeout": 600_000}
		},
		says:     func(s *sitting, prompt string) { s.prompts(prompt) },
		over:     func(s *sitting) bool { return strings.Count(s.out.String(), `"type":"result"`) > s.turns },
		troubled: regexp.MustCompile(`"outcome":"error"`),
	},
	"codex": {
		desk: codexDesk, shell: "exec_command",
		start: func(k *desk, prompt string) *sitting { return &sitting{session: k.codex(prompt)} },
		again: func(k *desk, session, prompt string) *sitting {
			return &sitting{session: k.codex("resume", session, prompt)}
		},
		end: "PostToolUse",
		at: func(command string) map[string]any {
			return map[string]any{"cmd": command, "yield_time_ms": 30_000}
		},
		troubled: regexp.MustCompile(`Failed`),
	},
	"gemini": {
		desk: geminiDesk, shell: "run_shell_command", tools: "mcp_mailroom_",
		// The killed process is the one that runs the hooks.
		start: func(k *desk, prompt string) *sitting {
			return &sitting{session: k.gemini(prompt, "GEMINI_CLI_NO_RELAUNCH=true")}
		},
		again: func(k *desk, session, prompt string) *sitting {
			return &sitting{session: k.runGemini([]string{"GEMINI_CLI_NO_RELAUNCH=true"}, "-p", prompt, "--skip-trust",
				"-y", "-m", "gemini-2.5-flash", "--resume", session)}
		},
		end: "AfterTool",
		at: func(command string) map[string]any {
			return map[string]any{"command": command, "description": "Do it"}
		},
		troubled: regexp.MustCompile(`(?i)hook.*(failed|error)`),
	},
	"qwen": {
		desk: bareQwenDesk, shell: "run_shell_command", tools: "mcp__mailroom__",
		start: func(k *desk, prompt string) *sitting {
			k.configuresQwen()
			return &sitting{session: k.qwen(prompt)}
		},
		again: func(k *desk, session, prompt string) *sitting {
			k.configuresQwen()
			return &sitting{session: k.qwen(prompt, "--resume", session)}
		},
		end: "PostToolUse",
		at: func(command string) map[string]any {
			return map[string]any{"command": command, "description": "Do it", "is_background": false}
		},
		troubled: regexp.MustCompile(`(?i)hook.*(failed|error)`),
	},
	"copilot": {
		desk: bareCopilotDesk, shell: "bash", tools: "mailroom-copilot-",
		start: func(k *desk, prompt string) *sitting {
			k.configuresCopilot()
			return &sitting{session: k.copilot(prompt)}
		},
		again: func(k *desk, session, prompt string) *sitting {
			k.configuresCopilot()
			return &sitting{session: k.copilot(prompt, "--resume="+session)}
		},
		end: "PostToolUse",
		at: func(command string) map[string]any {
			return map[string]any{"command": command, "description": "Do it", "initial_wait": 600}
		},
		troubled: regexp.MustCompile(`(?i)hook.*(failed|error)`),
	},
	"opencode": openCodeSeat(bareOpenCodeDesk),
	"kilo":     openCodeSeat(func(t *testing.T) *desk { return openCodesDesk(t, "kilo") }),
	"pi": {
		desk: barePiDesk, shell: "bash", tools: "mcp__mailroom__",
		start: func(k *desk, prompt string) *sitting {
			p := k.pi()
			p.prompts(prompt)
			return &sitting{session: p.session, live: p}
		},
		again: func(k *desk, session, prompt string) *sitting {
			p := k.pi("--session", session)
			p.prompts(prompt)
			return &sitting{session: p.session, live: p}
		},
		at:   func(command string) map[string]any { return map[string]any{"command": command} },
		says: func(s *sitting, prompt string) { s.live.prompts(prompt) },
		over: func(s *sitting) bool { return strings.Count(s.out.String(), `"type":"agent_settled"`) > s.turns },
	},
}

// live is a host to which messages come by themselves, instead of by a hook at its next step.
type live interface {
	prompts(text string) // sends a prompt of the user
	has(id string)       // waits until the host has a message
}

// openCodeSeat returns the seat of OpenCode, or of a host based on it.
func openCodeSeat(desked func(t *testing.T) *desk) seat {
	return seat{
		desk: desked, shell: "bash", tools: "mailroom_",
		start: func(k *desk, prompt string) *sitting {
			o := k.openCode()
			o.prompts(prompt)
			return &sitting{session: o.session, live: o}
		},
		again: func(k *desk, session, prompt string) *sitting {
			o := k.serveOpenCode()
			o.id = session
			o.prompts(prompt)
			return &sitting{session: o.session, live: o}
		},
		at: func(command string) map[string]any {
			return map[string]any{"command": command, "description": "Do it"}
		},
		says: func(s *sitting, prompt string) { s.live.prompts(prompt) },
		over: func(s *sitting) bool {
			o := s.live.(*openCode)
			return !strings.Contains(o.asked(http.MethodGet, "/session/status", nil), o.id)
		},
	}
}

// inEachHost runs a test in each host, at a separate desk.
func inEachHost(t *testing.T, test func(t *testing.T, k *desk, of seat)) {
	for name, of := range seats {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := of.desk(t)
			k.speaks = "relay,coral"
			if agenthost.Find(name).Streams {
				k.connects("--as", "bob", "--vocabulary", "relay", "--vocabulary", "coral")
			}
			test(t, k, of)
		})
	}
}

// sits starts the host, and sends a prompt of its user.
func (k *desk) sits() *sitting {
	k.t.Helper()
	of := seats[k.host]
	s := of.start(k, "Do it.")
	s.seat = of
	return s
}

// resumes starts the host, whose user continues the existing session.
func (k *desk) resumes() *sitting {
	k.t.Helper()
	of := seats[k.host]
	s := of.again(k, k.rows(`SELECT session FROM host_sessions`)[0], "Are you there?")
	s.seat = of
	return s
}

// works makes the model run a command.
func (s *sitting) works(r *request, command string) {
	s.t.Helper()
	r.calls(s.shell, s.at(command))
}

// worksAt makes the model run a command that waits at a gate, and waits until the command does.
func (s *sitting) worksAt(r *request, g *gate) {
	s.t.Helper()
	s.works(r, g.pass())
	g.reached()
}

// hearsAtWork makes the model run a command that waits at a gate, and sends a message meanwhile. If messages come by
// themselves, it waits until the host has the message before the command ends. It returns the message's ID, and the
// next request, which must show that message and no other.
func (s *sitting) hearsAtWork(send func() string) (id string, r *request) {
	s.t.Helper()
	at := func(g *gate) map[string]any { return s.at(g.pass()) }
	return s.hears(s.asks(), s.shell, at, func() string {
		id := send()
		s.has(id)
		return id
	})
}

// has waits until the host has a message, if messages come by themselves instead of by a hook at the next step.
func (s *sitting) has(id string) {
	s.t.Helper()
	if s.live != nil {
		s.live.has(id)
	}
}

// turnEnds waits until the turn has ended without errors. In a host that ends with its turn, it waits for the host.
func (s *sitting) turnEnds() {
	s.t.Helper()
	if s.over == nil {
		s.ends()
	} else {
		s.until("the turn ends", func() bool { return s.over(s) })
		s.turns++
	}
	if out := s.out.String(); s.troubled != nil && s.troubled.MatchString(out) {
		s.t.Errorf("the host says:\n%s", out)
	}
}

// goesOn sends another prompt of the user after the end of a turn: in a new session if the host has ended with the
// turn.
func (s *sitting) goesOn(prompt string) {
	s.t.Helper()
	if s.says == nil {
		s.session = s.seat.start(s.session.desk, prompt).session
	} else {
		s.says(s, prompt)
	}
}

// isShown checks that a message is shown once: in this request or, if it comes by itself, in one soon after that.
func (s *sitting) isShown(r *request, id string) *request {
	s.t.Helper()
	if len(r.shown()) == 0 && s.live != nil {
		s.has(id)
		s.works(r, "true")
		r = s.asks()
	}
	r.shows(id)
	return r
}

// rests ends the turn, and checks that all messages are read.
func (s *sitting) rests(r *request) {
	s.t.Helper()
	r.says("Done.")
	if s.live == nil {
		s.ends()
	}
	s.await(`SELECT count(*) FROM agent_message WHERE recipient = 'bob' AND (read_at IS NULL OR read_at = '')`, "0")
}

// leaves ends the host normally, if it has not ended with the turn.
func (s *sitting) leaves() {
	s.t.Helper()
	if s.live == nil {
		return
	}
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		s.t.Fatal(err)
	}
	select {
	case <-s.ended:
	case <-time.After(patience):
		s.t.Fatalf("the host does not end:\n%s", s.out)
	}
	s.await(`SELECT count(*) FROM host_sessions WHERE state = 'ended'`, "1")
}

// frames matches the beginnings of messages, with their IDs.
var frames = regexp.MustCompile(regexp.QuoteMeta(frameBegins) + `id="([^"]*)"`)

// shown lists the messages that the model has been shown so far, including repetitions.
func (r *request) shown() (ids []string) {
	for _, found := range frames.FindAllStringSubmatch(r.text(), -1) {
		ids = append(ids, found[1])
	}
	return ids
}

// showsInOrder checks that the model has been shown exactly these messages, each once, in its frame and in this
// order.
func (r *request) showsInOrder(ids ...string) {
	r.t.Helper()
	r.shows(ids...)
	want.Rows(r.t, r.shown(), ids...)
}
