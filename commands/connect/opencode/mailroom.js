const COMMAND = []

// This plugin shows the model what other agents write to it. It runs `mailroom hook stream`, which writes a line of JSON for each
// delivery, gives the text to the session that is in use, and confirms the messages once the model has answered after them.
// It is written by `mailroom connect opencode`, which also takes it away.

import { spawn } from "node:child_process"
import { createInterface } from "node:readline"

export const Mailroom = async ({ client, directory }) => {
  const children = new Set() // sessions of subagents, which are not for messages
  let stream // the process
  let session // in use
  let mode = {} // agent and model that the user has chosen there: a message gives no other agent its turn
  let open // the delivery that the model has not answered

  const say = (...words) => stream?.stdin.write(words.join(" ") + "\n")

  const settle = (how) => {
    if (open.ids.length > 0) say(how, ...open.ids)
    open = undefined
  }

  const deliver = async (delivery) => {
    open = delivery
    const body = { ...(delivery.session === session ? mode : {}), parts: [{ type: "text", text: delivery.text }] }
    const failure = await client.session
      .promptAsync({ path: { id: delivery.session }, query: { directory }, body })
      .then((result) => result.error, (error) => error)
    if (failure && open === delivery) settle("return")
  }

  const start = () => {
    const child = spawn(COMMAND[0], COMMAND.slice(1), { cwd: directory, stdio: ["pipe", "pipe", "ignore"] })
    stream = child
    child.on("error", () => {}) // "close" follows
    child.stdin.on("error", () => {})
    createInterface({ input: child.stdout }).on("line", (line) => deliver(JSON.parse(line)))
    child.on("close", () => {
      open = undefined
      setTimeout(start, 10_000).unref()
    })
    if (session) say("session", session)
  }
  start()

  return {
    event: async ({ event: { type, properties } }) => {
      const info = properties?.info
      if (type === "session.created" && info.parentID) {
        children.add(info.id)
      } else if (type === "session.created") {
        mode = {}
        say("session", (session = info.id))
      } else if (type === "session.idle" && properties.sessionID === session) say("idle", session)
      else if (type === "session.deleted" && open && open.session === info.id) settle("return")
      else if (type === "message.updated" && info.role === "assistant" && open?.message && info.sessionID === open.session) {
        // An assistant's message names the newest of its user's that the model was given.
        if (info.parentID >= open.message && info.time.completed && !info.error) settle("confirm")
      }
    },
    "chat.message": async ({ sessionID }, { message, parts }) => {
      if (open?.session === sessionID && parts[0]?.text === open.text) open.message = message.id
      else if (!children.has(sessionID)) {
        mode = { agent: message.agent, model: message.model && { providerID: message.model.providerID, modelID: message.model.modelID } }
        say("prompted", (session = sessionID))
      }
    },
  }
}
