// How an agent stands, in words.

import { age, clock } from "./time.js";
import { plural } from "./words.js";

// disabledSince parts what is stored of a disabled agent, "TIME REASON", into both.
export function disabledSince(text) {
  const at = text.indexOf(" ");
  return at < 0 ? { at: text, why: "" } : { at: text.slice(0, at), why: text.slice(at + 1) };
}

const failing = { __proto__: null, failed: "its last session failed", given_up: "its sessions were given up" };

// standing says how an agent is: {name} of a state (as State has it), a few words, and whether that needs a person.
export function standing(agent) {
  if (agent.disabled) return { name: "disabled", word: `disabled since ${clock(disabledSince(agent.disabled).at, { seconds: false })}`, bad: true };
  if (failing[agent.run?.state]) return { name: "failed", word: `${failing[agent.run.state]}, ${clock(agent.run.since, { seconds: false })}`, bad: true };
  if (agent.status === "silent") return { name: "silent", word: `silent since ${clock(agent.status_since, { seconds: false })}`, warn: true };
  if (agent.backlog?.retry) return { name: "retry", word: `${plural(agent.backlog.retry, "message waits", "messages wait")} for another attempt`, warn: true };
  if (agent.run?.state === "running") return { name: "working", word: `its session runs since ${clock(agent.run.started_at, { seconds: false })}` };
  if (agent.status === "working") return { name: "working", word: heard(agent) };
  if (agent.status === "idle" || agent.status === "stopped") return { name: agent.status, word: `${agent.status} since ${clock(agent.status_since, { seconds: false })}` };
  if (agent.built_in) return { name: "idle", word: agent.role };
  return { name: "idle", word: "has not said what it does" };
}

// heard says when an agent that works was last heard of.
function heard(agent) {
  const ago = age(lastHeard(agent));
  return ago === "now" ? "working · heard now" : `working · heard ${ago} ago`;
}

// lastHeard is when an agent was last heard of, as far as anything says so.
export const lastHeard = (agent) => agent.heard_at ?? agent.backlog?.host_sessions?.[0]?.seen_at ?? agent.status_since;

// waits is how many messages wait for an agent: not delivered, or not read.
export const waits = (backlog) => (backlog ? backlog.pending + backlog.retry + backlog.unread : 0);

// oldest is since when the oldest of them waits.
export function oldest(backlog) {
  const times = [backlog?.oldest_at, backlog?.unread_since].filter(Boolean).sort();
  return times[0];
}
