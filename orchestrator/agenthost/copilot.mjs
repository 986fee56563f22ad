// Starts a turn in an idle session when its agent has a new message. Copilot CLI runs this file as an extension. Its hooks
// show the message to the model.
// This file is written by `mailroom connect copilot --idle`, and removed by `mailroom connect copilot --remove`.
import { spawn } from "node:child_process"
import { joinSession } from "@github/copilot-sdk/extension"

const COMMAND = []

const session = await joinSession({})
let waiter

// wait starts a waiter. If the waiter ends with status 2, its output is the prompt that wakes the session. With any other
// status, for example if messages have started enough turns, the end of the next turn starts another waiter.
function wait() {
  if (waiter) return
  let words = ""
  waiter = spawn(COMMAND[0], COMMAND.slice(1), { stdio: ["pipe", "ignore", "pipe"] })
  waiter.stderr.on("data", (text) => (words += text))
  waiter.stdin.on("error", () => {})
  waiter.on("error", () => {}) // "close" follows
  waiter.on("close", (status) => {
    waiter = undefined
    if (status === 2) session.send({ prompt: words.trim(), source: "agent-mailroom" }).catch(() => setTimeout(wait, 10_000))
  })
  waiter.stdin.end(JSON.stringify({ session_id: session.sessionId }))
}

session.on((event) => {
  if (event.type === "session.idle") wait()
})
process.on("exit", () => waiter?.kill())
process.on("SIGTERM", () => process.exit(0))
wait()
