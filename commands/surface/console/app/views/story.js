// The story of a message, as steps with a start and an end: actions, and the waits between them.

import { clock, span } from "../time.js";

const ms = (at) => Date.parse(at) || 0; // 0 for text that is not a time
const short = 20; // milliseconds; a shorter wait is not shown

// waiting describes what a message waits for: the label during the wait, the label after it, and the other fields of
// the step.
const waiting = (now, past = now, step = {}) => ({ now, past, step });
const delivery = waiting("Waiting for delivery", "Waited for delivery");
const ladder = waiting("Waiting to retry", "Waited to retry", { ladder: true });
const deadLetter = waiting("Dead letter", "Dead letter", { kind: "dead" });
const nothing = waiting("");
const after = { after: true }; // the message is delivered: sums does not count these steps

// steps converts a story (see the command trace) until `now` into [{kind, label, from, to, note, output, shape, at}].
// kind is sent, good, bad, act, wait, or dead. A step in progress is `open`. why is the result of the command why.
export function steps({ message, events, commands }, why, now) {
  const spans = new Map(commands.map((c) => [c.span_id, c])), acted = new Set(events.map((e) => e.span_id));
  const list = [];
  const posted = message.multicast_target?.startsWith("thread:");
  const who = message.recipient, held = waiting(`Held until an agent named ${who} is added`, `Held: there was no agent named ${who}`);
  let done = null, claimed = null, waits = delivery, tries = 0;
  const wait = (until, open = false) => {
    if (done === null || until - done < short) return;
    list.push({ kind: "wait", ...waits.step, label: open ? waits.now : waits.past, from: done, to: until, open });
  };
  const add = (step) => {
    list.push(step);
    done = Math.max(done ?? step.to, step.to);
  };
  for (const e of events) {
    const at = ms(e.at), by = spans.get(e.span_id);
    const point = (shape, label, more) => {
      wait(at);
      add({ kind: "act", shape, label, from: at, to: at, note: e.error, at: e.at, ...more });
    };
    switch (e.event) {
      case "created":
        add({ kind: "sent", shape: "sent", label: `${posted ? "Posted" : "Sent"} by ${message.sender || "an unknown agent"}`, from: by ? Math.min(ms(by.started_at), at) : at, to: at, note: posted ? `in the thread, mentioning @${who}` : by && by.name !== "send" ? `with ${by.name}` : "", at: e.at });
        waits = e.new_status === "failed" ? deadLetter : message.held ? held : message.not_before && ms(message.not_before) > at ? waiting(`Waiting until ${clock(message.not_before)}`, `Waited until ${clock(message.not_before)}`) : delivery;
        break;
      case "adopted": point("sent", "Written or changed with SQL, and imported"); waits = delivery; break;
      case "held": point("pending", `Held: there is no agent named ${who}`); waits = held; break;
      case "claimed": wait(at); claimed = at; done = at; break;
      case "released":
        if (claimed !== null) {
          add({ kind: "act", shape: "retry", label: `Attempt ${tries + 1} was abandoned`, from: claimed, to: at, note: e.error, at: e.at });
          claimed = null;
        } else point("retry", "Released");
        break;
      case "attempt_failed": {
        tries++;
        if (claimed === null) wait(at);
        add({ kind: "bad", shape: "failed", attempt: tries, label: `Attempt ${tries}`, from: claimed ?? at, to: at, note: e.error, output: e.detail, at: e.at });
        claimed = null;
        waits = e.new_status === "failed" ? deadLetter : ladder;
        break;
      }
      case "failed":
        if (list.at(-1)?.kind === "bad" && at - list.at(-1).to < 1000) Object.assign(list.at(-1), { last: true, label: `Attempt ${tries} (last)` });
        else point("failed", tries ? "Stopped retrying" : "Rejected when it was sent", { kind: "bad" });
        waits = deadLetter;
        break;
      case "expired": point("expired", "Expired", { kind: "bad" }); waits = deadLetter; break;
      case "replayed": point("replay", `Replayed by ${by?.caller || "the operator"}`); waits = delivery; break;
      case "delivered":
        tries++;
        if (claimed === null) wait(at);
        add({ kind: "good", shape: "delivered", attempt: tries, label: tries > 1 ? `Attempt ${tries}: delivered` : who === "user" ? "Sent to the devices" : "Delivered", from: claimed ?? at, to: at, note: e.error, output: e.detail, at: e.at });
        claimed = null;
        waits = who === "user" ? nothing : { ...waiting(`Unread by ${who}`), step: after, unread: true };
        break;
      case "shown": point("pending", `Shown to ${who}, not confirmed yet`); waits = { ...waiting(`Not confirmed by ${who}`), step: after }; break;
      case "read": point("delivered", `Read by ${who}`); waits = { ...waiting(`Not acknowledged by ${who}`), step: after }; break;
      case "acknowledged": point("delivered", `Acknowledged by ${who}`); waits = nothing; break;
      case "cancelled": point("cancelled", "Canceled"); waits = nothing; break;
      case "overdue": point("overdue", "Overdue", { note: "it has waited longer than the limit" }); break;
      case "answered": point("question", "Answered"); break;
      case "archived": point("idle", "Archived"); break;
      case "deleted": point("stopped", "Deleted by retention"); waits = nothing; break;
      default: point("idle", e.event);
    }
  }
  for (const c of commands) {
    if (acted.has(c.span_id) || c.span_id === message.span_id) continue;
    const end = c.ended_at ? ms(c.ended_at) : now;
    list.push({ kind: c.status === "ERROR" ? "bad" : "act", shape: c.status === "ERROR" ? "failed" : "working", label: c.name, from: ms(c.started_at), to: end, open: !c.ended_at, note: c.status_message || c.attributes?.outcome || "", output: c.attributes?.output, at: c.started_at, session: true });
  }
  openEnd(list, { message, why, now, claimed, tries, done, waits, held });
  for (const step of list) if (step.ladder && !step.open) step.label = `Waited ${span(step.to - step.from)} to retry`;
  return list.sort((a, b) => a.from - b.from || a.to - b.to);
}

// openEnd adds the step that is still in progress.
function openEnd(list, { message, why, now, claimed, tries, done, waits, held }) {
  if (done === null) return;
  const open = (step) => now > done && list.push({ from: done, to: now, open: true, ...step });
  switch (message.status) {
    case "pending": case "retry":
      if (claimed !== null) open({ kind: "act", shape: "working", label: `Attempt ${tries + 1} in progress`, from: claimed });
      else if (waits === ladder) climb(message, now, done, open);
      else open({ kind: "wait", ...waits.step, label: message.held ? held.now : waits.now });
      break;
    case "failed": case "expired": open({ kind: "dead", label: deadLetter.now, note: "needs a person" }); break;
    case "delivered":
      if (waits.unread && !message.archived_at && why?.where?.startsWith("in the inbox")) open({ kind: "wait", ...waits.step, label: waits.now });
  }
}

// climb adds the current wait for a retry and, once the attempt is due, the time since then.
function climb(message, now, done, open) {
  const due = ms(message.next_attempt_at);
  if (due > now) open({ kind: "wait", ladder: true, label: `Waiting to retry in ${span(due - now)}` });
  else {
    if (due > done) open({ kind: "wait", ladder: true, label: ladder.past, to: due, open: false });
    open({ kind: "wait", label: "Due, but not attempted yet", from: Math.max(due, done) });
  }
}

// fold shortens a story with more than eight attempts. In each sequence of at least five failed attempts
// with the same error, it keeps the first and the last, and replaces the steps between them with one step. The list
// `folded` of that step holds the replaced steps.
export function fold(list) {
  if (list.filter((step) => step.attempt).length <= 8) return list;
  const out = [];
  for (let i = 0; i < list.length;) {
    let end = i, alike = [];
    const first = list[i];
    while (end < list.length && first.kind === "bad" && first.attempt) {
      const next = list[end];
      if (next.kind === "bad" && next.attempt && next.note === first.note) alike.push(end++);
      else if (next.kind === "wait" && list[end + 1]?.kind === "bad" && list[end + 1].note === first.note) end++;
      else break;
    }
    if (alike.length < 5) {
      out.push(list[i++]);
      continue;
    }
    const inner = list.slice(alike[0] + 1, alike.at(-1)), n = alike.length - 2;
    out.push(first, { kind: "folded", label: `${n} similar attempts`, from: inner[0].from, to: inner.at(-1).to, note: `attempts ${first.attempt + 1} to ${first.attempt + n}`, folded: inner }, list[alike.at(-1)]);
    i = alike.at(-1) + 1;
  }
  return out;
}

// scale returns a function from times to percent of the width. Unless `linear` is set, the width of the interval
// between two steps is the cube root of its length, so that a step of a second remains visible beside a step of an
// hour.
export function scale(list, linear, width = 90) {
  const times = [...new Set(list.flatMap((step) => [step.from, step.to]))].sort((a, b) => a - b);
  const at = new Map([[times[0], 0]]);
  let sum = 0;
  for (let i = 1; i < times.length; i++) {
    sum += linear ? times[i] - times[i - 1] : Math.cbrt(times[i] - times[i - 1]);
    at.set(times[i], sum);
  }
  return (time) => (sum ? (at.get(time) / sum) * width : 0);
}

// sums adds up the time spent in each kind of step, from sending to the end: [{kind, ms, label}].
export function sums(list) {
  const total = { bad: 0, good: 0, act: 0, ladder: 0, wait: 0, person: 0, dead: 0 };
  for (const step of list) {
    if (step.session || step.after) continue;
    const length = step.to - step.from;
    if (step.kind === "wait") total[step.ladder ? "ladder" : "wait"] += length;
    else if (step.kind === "sent") total.act += length;
    else if (step.kind in total) total[step.kind] += length;
  }
  const labels = { bad: "in failed attempts", good: "in the successful attempt", act: "in processing", ladder: "waiting to retry", wait: "waiting", person: "waiting for a person", dead: "as a dead letter" };
  return Object.entries(total).filter(([, length]) => length >= 1).map(([kind, length]) => ({ kind, ms: length, label: labels[kind] }));
}
