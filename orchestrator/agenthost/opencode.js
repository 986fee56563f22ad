const COMMAND = []

// This plugin shows the model messages from other agents. It runs `mailroom hook stream`, which prints a line of JSON for each
// delivery. The plugin adds the text to the session in use, and confirms the messages after the model has answered.
// This file is written by `mailroom connect`, and removed by `mailroom connect HOST --remove`.

import { spawn } from "node:child_process"
import { createInterface } from "node:readline"

// run starts the stream, passes each delivery to `deliver`, and calls `ended` at its end.
const run = (directory, deliver, ended) => {
  const child = spawn(COMMAND[0], COMMAND.slice(1), { cwd: directory, stdio: ["pipe", "pipe", "ignore"] })
  child.on("error", () => {}) // "close" follows
  child.stdin.on("error", () => {})
  createInterface({ input: child.stdout }).on("line", (line) => deliver(JSON.parse(line)))
  child.on("close", ended)
  return child
}

// marksIn lists the marks of the messages in a text.
const marksIn = (text) => [...text.matchAll(/^<mailroom-message id="[^"]*" mark="([0-9a-f.]+)"/gm)].map((found) => found[1])

export const Mailroom = async ({ client, directory }) => {
  const children = new Set() // sessions of subagents, which get no messages
  const known = new Map() // sessions whose messages were reported to the stream; each value ends with the report
  let stream // the process
  let session // in use
  let mode = {} // agent and model that the user has chosen in the session, so that messages do not switch them
  let open = [] // deliveries that the model has not answered

  const say = (...words) => stream?.stdin.write(words.join(" ") + "\n")

  const settle = (delivery, how) => {
    if (!open.includes(delivery)) return
    open = open.filter((other) => other !== delivery)
    say(how, ...delivery.ids)
  }

  const deliver = async (delivery) => {
    open.push(delivery)
    const body = { ...(delivery.session === session ? mode : {}), parts: [{ type: "text", text: delivery.text }] }
    const failure = await client.session
      .promptAsync({ path: { id: delivery.session }, query: { directory }, body })
      .then((result) => result.error, (error) => error)
    if (failure) settle(delivery, "return")
  }

  // The parentID of an assistant's message is the newest message of the user that the model was given.
  const answers = (info) => info.role === "assistant" && info.time.completed && !info.error

  // recall reports the deliveries that a session from an earlier process contains. The newest messages are enough, because all
  // earlier ones are answered.
  const recall = async (id) => {
    const request = { path: { id }, query: { directory, limit: 100 } }
    const { data } = await client.session.messages(request).catch(() => ({}))
    const list = data ?? []
    const answered = list.reduce((newest, { info }) => (answers(info) && info.parentID > newest ? info.parentID : newest), "")
    const kept = { session: id, ids: [] }
    for (const { info, parts } of list) {
      const text = info.role === "user" && parts[0]?.type === "text" ? parts[0].text : ""
      const marks = marksIn(text)
      if (marks.length === 0) continue
      if (info.id <= answered) say("answered", id, ...marks)
      else {
        say("stands", id, ...marks)
        kept.ids.push(...marks)
        kept.message = info.id
      }
    }
    if (kept.message) open.push(kept)
  }

  const use = async (id, how) => {
    if (!known.has(id)) known.set(id, recall(id))
    await known.get(id)
    session = id
    say(how, id)
  }

  const start = () => {
    stream = run(directory, deliver, () => {
      open = []
      known.clear()
      setTimeout(start, 10_000).unref()
    })
    if (session) use(session, "session")
  }
  start()

  return {
    event: async ({ event: { type, properties } }) => {
      const info = properties?.info
      if (type === "session.created" && info.parentID) {
        children.add(info.id)
      } else if (type === "session.created") {
        mode = {}
        known.set(info.id)
        use(info.id, "session")
      } else if (type === "session.idle" && properties.sessionID === session) say("idle", session)
      else if (type === "session.deleted") open.filter((delivery) => delivery.session === info.id).forEach((delivery) => settle(delivery, "return"))
      else if (type === "message.updated" && answers(info)) {
        open
          .filter((delivery) => delivery.session === info.sessionID && delivery.message && info.parentID >= delivery.message)
          .forEach((delivery) => settle(delivery, "confirm"))
      }
    },
    "chat.message": async ({ sessionID }, { message, parts }) => {
      const delivery = open.find(({ session, text }) => session === sessionID && text && parts[0]?.text === text)
      if (delivery) delivery.message = message.id
      else if (!children.has(sessionID)) {
        mode = { agent: message.agent, model: message.model && { providerID: message.model.providerID, modelID: message.model.modelID } }
        await use(sessionID, "prompted")
      }
    },
  }
}
