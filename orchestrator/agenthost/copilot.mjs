// Begins a turn in an idle session when a message has come for its agent. Copilot CLI runs it as an extension, and its hooks
// give the model the message.
// This file is written by `mailroom connect copilot --idle`, and removed by `mailroom connect copilot --remove`.
import { spawn } from "node:child_process"
import { joinSession } from "@github/copilot-sdk/extension"

const COMMAND = []

const session = await joinSession({})
let waiter

// The waiter ends with status 2 when the session is to be woken, and prints with which words. When it ends otherwise, such
// as for an agent whose messages have caused enough turns, the end of the next turn starts another.
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
