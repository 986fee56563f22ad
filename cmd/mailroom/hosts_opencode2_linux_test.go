package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/orchestrator/orchestratortest/helper"
	"mailroom/orchestrator/orchestratortest/want"
)

// TestOpenCodeV2Plugin checks that the plugin with a part for OpenCode 2 works in OpenCode 1 as the other plugin
// does.
func TestOpenCodeV2Plugin(t *testing.T) {
	helper.Long(t)
	t.Parallel()
	k := bareOpenCodeDesk(t).connects("--as", "bob", "--v2")
	openCodeBusy(t, k)
}

// openCode2 calls the plugin as described in the documentation of OpenCode 2, which is not released yet. It
// prints the calls that it receives, and has one session of the user and one of a subagent.
const openCode2 = `
const { default: plugin } = await import(process.argv[2])
const tell = (what, value) => console.log(what + " " + JSON.stringify(value))
const events = []
let more
const happens = (type, data) => { events.push({ type, data }); more?.() }
let prompted
const close = await plugin.setup({
  location: { directory: process.cwd() },
  session: {
    synthetic: async (request) => { tell("synthetic", request); return { id: "inbox-1" } },
    context: async () => [],
    get: async ({ sessionID }) => (sessionID === "child" ? { parentID: "mine" } : {}),
    hook: async (name, callback) => { prompted = callback },
  },
  event: { subscribe: async function* ({ signal }) {
    while (!signal.aborted) {
      while (events.length > 0) yield events.shift()
      await new Promise((resolve) => { more = resolve; signal.addEventListener("abort", resolve) })
    }
  } },
})
for await (const line of (await import("node:readline")).createInterface({ input: process.stdin })) {
  const [what, ...words] = line.split(" ")
  if (what === "prompt") await prompted({ sessionID: words[0] })
  else if (what === "close") { close(); break }
  else happens(what, Object.fromEntries(words.map((word) => word.split("="))))
}
`

// TestOpenCode2 checks that, as documented, a message is admitted to the user's session and not to a subagent's, and
// is read after the end of the step at which it was delivered.
func TestOpenCode2(t *testing.T) {
	t.Parallel()
	k := bareOpenCodeDesk(t).connects("--as", "bob", "--v2")
	node, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	k.program = k.script("opencode2", fmt.Sprintf("#!/bin/sh\nexec %s \"$@\"\n", node))
	plugin, err := os.ReadFile(filepath.Join(k.folder, ".opencode", "plugins", "mailroom.js"))
	if err != nil {
		t.Fatal(err)
	}
	s := k.start(nil, k.write("host.mjs", openCode2), k.write("mailroom.mjs", string(plugin)))
	tells := func(line string) { fmt.Fprintln(s.in, line) }
	tells("prompt mine")
	tells("prompt child")
	k.await(`SELECT count(*) FROM host_sessions`, "1")
	want.Rows(t, k.rows(`SELECT session FROM host_sessions`), "mine")
	id := k.send("Look at the build.")
	s.writes("the message is admitted", func(text string) bool { return strings.Contains(text, id) })
	if out := s.out.String(); !strings.Contains(out, `"sessionID":"mine"`) || !strings.Contains(out, `"delivery":"steer"`) {
		t.Errorf("it is admitted so:\n%s", out)
	}
	tells("session.step.ended sessionID=mine") // of the step before
	tells("session.inbox.delivered sessionID=mine inboxID=inbox-1")
	k.stand("shown")
	tells("session.step.ended sessionID=mine")
	k.read(1)
	tells("close")
	s.ends()
	k.stand("read")
}
