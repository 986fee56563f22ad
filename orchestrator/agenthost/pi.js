const COMMAND = []

// This extension shows the model messages from other agents. It runs `mailroom hook stream`, which prints a line of JSON for each
// delivery. The extension adds the text to the session, and confirms the messages after the model has answered.
// This file is written by `mailroom connect`, and removed by `mailroom connect HOST --remove`.

import { spawn } from "node:child_process"
import { createInterface } from "node:readline"

const TYPE = "mailroom" // custom type of the messages that contain a delivery

export default function (pi) {
  let stream // the process
  let open = [] // deliveries that the model has not answered; taken: is in the session, ended: its run is over

  let user // the part of the session that shows its user the number of waiting messages
  const tell = () => {
    const waits = open.reduce((n, { ids, taken }) => n + (taken ? 0 : ids.length), 0)
    user?.setStatus("mailroom", waits ? `mailroom: ${waits} new` : undefined)
  }

  const say = (...words) => stream?.stdin.write(words.join(" ") + "\n")

  const settle = (which, how) => {
    const settled = open.filter(which)
    open = open.filter((delivery) => !settled.includes(delivery))
    for (const delivery of settled) say(how, ...delivery.ids)
    tell()
  }

  const deliver = ({ ids, text }) => {
    open = open.filter((other) => !other.ids.some((id) => ids.includes(id))) // replaces an earlier delivery of the same messages
    open.push({ ids })
    // One message, because pi takes one per turn. It starts a turn, or joins the running turn after its tool calls.
    pi.sendMessage({ customType: TYPE, content: text, display: true, details: { ids } }, { triggerTurn: true, deliverAs: "steer" })
    tell()
  }

  const answers = (message) => message.role === "assistant" && !["error", "aborted"].includes(message.stopReason)

  // recall reports the deliveries that a session from an earlier process contains.
  const recall = (session, entries) => {
    const last = entries.findLastIndex((entry) => entry.type === "message" && answers(entry.message))
    entries.forEach((entry, at) => {
      const ids = entry.type === "custom_message" && entry.customType === TYPE ? (entry.details?.ids ?? []) : []
      if (ids.length === 0) return
      say(at < last ? "answered" : "stands", session, ...ids)
      if (at > last) open.push({ ids, taken: true })
    })
  }

  let session // its id; undefined after its end
  pi.on("session_start", (_, ctx) => {
    session = ctx.sessionManager.getSessionId()
    user = ctx.hasUI ? ctx.ui : undefined
    const start = () => {
      const child = spawn(COMMAND[0], COMMAND.slice(1), { cwd: ctx.cwd, stdio: ["pipe", "pipe", "ignore"] })
      stream = child
      child.on("error", () => {}) // "close" follows
      child.stdin.on("error", () => {})
      createInterface({ input: child.stdout }).on("line", (line) => session && deliver(JSON.parse(line)))
      child.on("close", () => {
        open = open.filter(({ taken }) => !taken) // keeps those that are in the session
        setTimeout(() => session && start(), 10_000).unref()
      })
      for (const { ids } of open) say("stands", session, ...ids)
      recall(session, ctx.sessionManager.getBranch())
      say("session", session)
    }
    start()
  })
  pi.on("session_shutdown", () => {
    session = user = undefined
    const child = stream
    if (child?.exitCode !== null) return
    return new Promise((done) => {
      child.once("close", done)
      setTimeout(done, 2_000).unref()
      child.stdin.end()
    })
  })
  pi.on("session_tree", (_, ctx) => {
    const stand = ctx.sessionManager.getBranch().flatMap((entry) => entry.details?.ids ?? [])
    settle(({ ids, taken }) => taken && !stand.includes(ids[0]), "return")
  })

  // If pi still has a delivery that was returned and delivered again, the model sees it only once.
  pi.on("context", ({ messages }) => {
    const ours = messages.filter((message) => message.customType === TYPE && message.details?.ids?.length) // a digest has none
    const within = (a, b) => (a.details?.ids ?? []).every((id) => b.details?.ids?.includes(id))
    const again = ours.filter((a, i) => ours.some((b, j) => i !== j && within(a, b) && (!within(b, a) || j < i)))
    if (again.length > 0) return { messages: messages.filter((message) => !again.includes(message)) }
  })

  pi.on("before_agent_start", (event) => {
    if (event.messageType === "user") say("prompted", session)
  })
  pi.on("message_end", ({ message }) => {
    if (message.customType === TYPE) {
      const delivery = open.find(({ ids, taken }) => !taken && ids[0] === message.details?.ids?.[0])
      if (delivery) delivery.taken = true
      tell()
    } else if (answers(message)) settle(({ taken }) => taken, "confirm")
  })
  pi.on("agent_end", () => open.forEach((delivery) => (delivery.ended = true)))
  pi.on("agent_settled", () => {
    settle(({ taken, ended }) => ended && !taken, "return") // pi discards waiting messages when its user presses Esc
    say("idle", session)
  })
}
