// The story of a message, as steps with a beginning and an end: what was done, and what was waited for meanwhile.

import { clock, span } from "../time.js";

const ms = (at) => Date.parse(at) || 0; // of what is no time, too
const short = 20; // milliseconds that are no wait

// steps tells a story (see the command trace) until `now`: [{kind, label, from, to, note, output, shape, at}]. kind is sent, good, bad, act, wait or
// dead; an open step still goes on. why is what the command why says.
export function steps({ message, events, commands }, why, now) {
  const spans = new Map(commands.map((c) => [c.span_id, c])), acted = new Set(events.map((e) => e.span_id));
  const list = [];
  const posted = message.multicast_target?.startsWith("thread:");
  let done = null, claimed = null, waits = "waits to be delivered", tries = 0;
  const wait = (until, open = false) => {
    if (done === null || until - done < short) return;
    const dead = waits.startsWith("Dead letter");
    list.push({ kind: dead ? "dead" : "wait", label: waits, from: done, to: until, open });
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
        add({ kind: "sent", shape: "sent", label: `${posted ? "Posted" : "Sent"} by ${message.sender || "an unknown agent"}`, from: by ? Math.min(ms(by.started_at), at) : at, to: at, note: posted ? `in the thread, with @${message.recipient}` : by && by.name !== "send" ? `with ${by.name}` : "", at: e.at });
        waits = e.new_status === "failed" ? "Dead letter, nobody replayed it" : message.held ? `Held: nobody has the name ${message.recipient}` : message.not_before && ms(message.not_before) > at ? `Wanted no earlier than ${clock(message.not_before)}` : "Waits to be delivered";
        break;
      case "adopted": point("sent", "Written or changed by hand, and taken in"); waits = "Waits to be delivered"; break;
      case "held": point("pending", `Held: nobody has the name ${message.recipient}`); waits = "Held by nobody’s name"; break;
      case "claimed": wait(at); claimed = at; done = at; break;
      case "released":
        if (claimed !== null) {
          add({ kind: "act", shape: "retry", label: `Attempt ${tries + 1} was given up`, from: claimed, to: at, note: e.error, at: e.at });
          claimed = null;
        } else point("retry", "Given back");
        break;
      case "attempt_failed": {
        tries++;
        if (claimed === null) wait(at);
        add({ kind: "bad", shape: "failed", attempt: tries, label: `Attempt ${tries}`, from: claimed ?? at, to: at, note: e.error, output: e.detail, at: e.at });
        claimed = null;
        waits = e.new_status === "failed" ? "Dead letter, nobody replayed it" : "On the ladder";
        break;
      }
      case "failed":
        if (list.at(-1)?.kind === "bad" && at - list.at(-1).to < 1000) Object.assign(list.at(-1), { last: true, label: `Attempt ${tries}, the last` });
        else point("failed", tries ? "Given up" : "Refused when it was sent", { kind: "bad" });
        waits = "Dead letter, nobody replayed it";
        break;
      case "expired": point("expired", "Expired", { kind: "bad" }); waits = "Dead letter, nobody replayed it"; break;
      case "replayed": point("replay", `Replayed by ${by?.caller || "the operator"}`); waits = "Waits to be delivered"; break;
      case "delivered":
        tries++;
        if (claimed === null) wait(at);
        add({ kind: "good", shape: "delivered", attempt: tries, label: tries > 1 ? `Attempt ${tries}: delivered` : message.recipient === "user" ? "On the devices" : "Delivered", from: claimed ?? at, to: at, note: e.error, output: e.detail, at: e.at });
        claimed = null;
        waits = message.recipient === "user" ? "" : `Unread by ${message.recipient}`;
        break;
      case "shown": point("pending", `Shown to ${message.recipient}, not confirmed yet`); waits = `${message.recipient} has it, and has not confirmed it`; break;
      case "read": point("delivered", `Read by ${message.recipient}`); waits = `Not acknowledged by ${message.recipient}`; break;
      case "acknowledged": point("delivered", `Acknowledged by ${message.recipient}`); waits = ""; break;
      case "cancelled": point("cancelled", "Taken back"); waits = ""; break;
      case "overdue": point("overdue", "Overdue", { note: "it waits for longer than it should" }); break;
      case "answered": point("question", "Answered"); break;
      case "archived": point("idle", "Archived"); break;
      case "deleted": point("stopped", "Deleted by retention"); waits = ""; break;
      default: point("idle", e.event);
    }
  }
  for (const c of commands) {
    if (acted.has(c.span_id) || c.span_id === message.span_id) continue;
    const end = c.ended_at ? ms(c.ended_at) : now;
    list.push({ kind: c.status === "ERROR" ? "bad" : "act", shape: c.status === "ERROR" ? "failed" : "working", label: c.name, from: ms(c.started_at), to: end, open: !c.ended_at, note: c.status_message || c.attributes?.outcome || "", output: c.attributes?.output, at: c.started_at, session: true });
  }
  openEnd(list, { message, why, now, claimed, tries, done, waits });
  for (const step of list) if (step.label === "On the ladder") step.label = step.open ? "On the ladder" : `${span(step.to - step.from)} on the ladder`;
  return list.sort((a, b) => a.from - b.from || a.to - b.to);
}

// openEnd adds what still goes on.
function openEnd(list, { message, why, now, claimed, tries, done, waits }) {
  if (done === null) return;
  const open = (step) => now > done && list.push({ from: done, to: now, open: true, ...step });
  switch (message.status) {
    case "pending": case "retry":
      if (claimed !== null) open({ kind: "act", shape: "working", label: `Attempt ${tries + 1} is under way`, from: claimed });
      else if (waits === "On the ladder") climb(message, now, done, open);
      else open({ kind: "wait", label: message.held ? `Held: nobody has the name ${message.recipient}` : `${waits}, still` });
      break;
    case "failed": case "expired": open({ kind: "dead", label: "Dead letter, still", note: "waits for you" }); break;
    case "delivered":
      if (waits.startsWith("Unread") && !message.archived_at && why?.where?.startsWith("in the inbox")) open({ kind: "wait", label: `${waits}, still`, note: `${message.recipient} has read nothing since` });
  }
}

// climb adds the wait on the ladder that goes on, and since when the next attempt is due.
function climb(message, now, done, open) {
  const due = ms(message.next_attempt_at);
  if (due > now) open({ kind: "wait", label: `On the ladder, again in ${span(due - now)}` });
  else {
    if (due > done) open({ kind: "wait", label: "On the ladder", to: due, open: false });
    open({ kind: "wait", label: "Due, and nobody has taken it", from: Math.max(due, done) });
  }
}

// fold puts alike attempts together where there are many: of each row of attempts with the same outcome the first and the last stay, and what is
// between becomes one step with a list `folded`.
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
    out.push(first, { kind: "folded", label: `${n} alike`, from: inner[0].from, to: inner.at(-1).to, note: `attempts ${first.attempt + 1} to ${first.attempt + n}`, folded: inner }, list[alike.at(-1)]);
    i = alike.at(-1) + 1;
  }
  return out;
}

// scale makes a function from times to percent of the width. Unless it is true to scale, each stretch between two steps is as wide as the cube root
// of its length, so that what took a second can be seen beside what took an hour.
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

// sums adds up what the time went into: [{kind, ms, label}], from sending to the end.
export function sums(list) {
  const total = { bad: 0, good: 0, act: 0, ladder: 0, wait: 0, person: 0, dead: 0 };
  for (const step of list) {
    if (step.session || /^(Unread|Not acknowledged|.* has it, and)/.test(step.label)) continue;
    const length = step.to - step.from;
    if (step.kind === "wait") total[/ladder/i.test(step.label) ? "ladder" : "wait"] += length;
    else if (step.kind === "sent") total.act += length;
    else if (step.kind in total) total[step.kind] += length;
  }
  const labels = { bad: "in attempts that failed", good: "in the attempt that delivered it", act: "at work", ladder: "on the ladder", wait: "waiting", person: "waiting for a person", dead: "a dead letter that nobody replayed" };
  return Object.entries(total).filter(([, length]) => length >= 1).map(([kind, length]) => ({ kind, ms: length, label: labels[kind] }));
}
