
// For OpenCode 2, from its documentation and sources, because no release of it could be tried. OpenCode puts a message into the
// inbox of the session. A running turn takes it at its next step. Otherwise, it starts a turn.
const setup = async (ctx) => {
  const closing = new AbortController()
  const children = new Map() // by session: whether it is a subagent's
  const known = new Map() // sessions whose messages were reported to the stream; each value ends with the report
  let stream // the process
  let session // in use
  const arrived = new Set() // inbox entries that have reached a conversation
  let open = [] // deliveries that the model has not answered; inbox: id in the inbox, taken: is in the conversation

  const say = (...words) => stream?.stdin.write(words.join(" ") + "\n")

  const settle = (which, how) => {
    const settled = open.filter(which)
    open = open.filter((delivery) => !settled.includes(delivery))
    for (const delivery of settled) say(how, ...delivery.ids)
  }

  const deliver = async (delivery) => {
    open.push(delivery)
    const request = { sessionID: delivery.session, text: delivery.text, description: "Messages from other agents", delivery: "steer" }
    const admitted = await ctx.session.synthetic(request).catch(() => undefined)
    if (!admitted) return settle((other) => other === delivery, "return")
    delivery.inbox = (admitted.data ?? admitted).id
    if (arrived.has(delivery.inbox)) delivery.taken = true
  }

  // recall reports the deliveries that a session from an earlier process contains, in the order of the conversation.
  const recall = async (id) => {
    const list = await ctx.session.context({ sessionID: id }).catch(() => [])
    let marks = []
    for (const message of list.data ?? list) {
      if (message.type === "synthetic" || message.type === "user")
        marks.push(...marksIn(message.text ?? ""))
      else if (message.type === "assistant" && marks.length > 0) {
        say("answered", id, ...marks)
        marks = []
      }
    }
    if (marks.length === 0) return
    say("stands", id, ...marks)
    open.push({ session: id, ids: marks, taken: true })
  }

  const isChild = async (id) => {
    if (!children.has(id)) {
      const found = await ctx.session.get({ sessionID: id }).catch(() => ({}))
      children.set(id, Boolean((found.data ?? found).parentID))
    }
    return children.get(id)
  }

  const use = async (id, how) => {
    if (!known.has(id)) known.set(id, recall(id))
    await known.get(id)
    session = id
    say(how, id)
  }

  const start = () => {
    stream = run(ctx.location.directory, deliver, () => {
      open = []
      known.clear()
      setTimeout(() => closing.signal.aborted || start(), 10_000).unref()
    })
    if (session) use(session, "session")
  }

  const happened = async ({ type, data }) => {
    const here = (delivery) => delivery.session === data.sessionID
    if (type === "session.created") {
      children.set(data.sessionID, Boolean(data.parentID))
      if (data.parentID) return
      known.set(data.sessionID)
      await use(data.sessionID, "session")
    } else if (type === "session.inbox.delivered") {
      arrived.add(data.inboxID)
      for (const delivery of open) if (delivery.inbox === data.inboxID) delivery.taken = true
    } else if (type === "session.inbox.cancelled") settle((delivery) => delivery.inbox && delivery.inbox === data.inboxID, "return")
    else if (type === "session.step.ended") settle((delivery) => here(delivery) && delivery.taken, "confirm")
    else if (type === "session.deleted") settle(here, "return")
    else if (/^session\.execution\.(succeeded|failed|interrupted)$/.test(type) && data.sessionID === session) say("idle", session)
  }

  start()
  await ctx.session.hook("prompt", async ({ sessionID }) => {
    if (!(await isChild(sessionID))) await use(sessionID, "prompted")
  })
  const listen = async () => {
    for await (const event of ctx.event.subscribe({ signal: closing.signal })) await happened(event).catch(() => {})
  }
  const listenAgain = () =>
    listen()
      .catch(() => {})
      .then(() => setTimeout(() => closing.signal.aborted || listenAgain(), 1000).unref())
  listenAgain()
  return () => {
    closing.abort()
    stream?.stdin.end()
  }
}

export default { id: "mailroom", server: Mailroom, setup }
