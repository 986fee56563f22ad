//go:build hosts

package main

import (
	"net/http"
	"testing"
)

// TestOpenCodeAborted: when the user ends a turn in which a message came, the message stays in the session, and is read
// once the model has answered after it.
func TestOpenCodeAborted(t *testing.T) {
	t.Parallel()
	k := openCodeDesk(t)
	o := k.idleOpenCode()
	id := k.send("Look at the build.")
	o.asks().shows(id)
	o.asked(http.MethodPost, "/session/"+o.id+"/abort", map[string]any{})
	k.stand("shown")
	o.prompts("Go on.")
	r := o.asks()
	r.shows(id)
	r.says("I do.")
	k.read(1)
}

// TestOpenCodeSubagent: a message comes into the session of the user, and not into that of a subagent.
func TestOpenCodeSubagent(t *testing.T) {
	t.Parallel()
	k := openCodeDesk(t)
	o := k.idleOpenCode()
	child := o.begins(map[string]any{"parentID": o.id})
	o.promptsIn(child, "Find it.")
	inner := o.asks()
	id := k.send("Look at the build.")
	r := o.asks()
	r.shows(id)
	r.says("I have.")
	k.read(1)
	inner.shows()
	inner.says("Found.")
}
