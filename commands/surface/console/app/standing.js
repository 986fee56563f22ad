// How an agent stands, in words.

import { useCommand } from "./data.js";
import { mayAdminister } from "./me.js";
import { ago, clock, now } from "./time.js";
import { plural } from "./words.js";

// disabledSince parts what is stored of a disabled agent, "TIME REASON", into both.
export function disabledSince(text) {
  const at = text.indexOf(" ");
  return at < 0 ? { at: text, why: "" } : { at: text.slice(0, at), why: text.slice(at + 1) };
}

// useHeard returns a function that adds to an agent what the command room knows of it: its state, and when it was last heard of.
export function useHeard() {
  const { data } = useCommand("room", {}, { matters: () => false, every: 15_000 });
  const members = new Map(data?.agents.map((member) => [member.name, member]));
  return (agent) => ({ ...agent, state: members.get(agent.name)?.state, heard_at: members.get(agent.name)?.heard_at || agent.heard_at });
}

const recent = 5 * 60_000; // milliseconds

// isActive reports whether an agent was heard of lately.
export const isActive = (at) => now.value - Date.parse(at) < recent;

const failing = { __proto__: null, failed: "its last session failed", given_up: "its sessions were given up" };

// standing says how an agent is: {name} of a state (as State has it), a few words, and whether that needs a person.
export function standing(agent) {
  if (agent.disabled) return { name: "disabled", word: `disabled since ${clock(disabledSince(agent.disabled).at, { seconds: false })}`, bad: true };
  if (failing[agent.run?.state]) return { name: "failed", word: `${failing[agent.run.state]}, ${clock(agent.run.since, { seconds: false })}`, bad: true };
  if (agent.state === "fails") return { name: "failed", word: "messages to it failed", bad: true };
  if (agent.state === "unread") return { name: "silent", word: "reads no mail", warn: true };
  if (agent.status === "silent") return { name: "silent", word: `silent since ${clock(agent.status_since, { seconds: false })}`, warn: true };
  if (agent.backlog?.retry) return { name: "retry", word: `${plural(agent.backlog.retry, "message waits", "messages wait")} for another attempt`, warn: true };
  if (agent.run?.state === "running") return { name: "working", word: `its session runs since ${clock(agent.run.started_at, { seconds: false })}` };
  if (agent.status === "working") return { name: "working", word: heard(agent) };
  if (agent.status === "idle" || agent.status === "stopped") return { name: agent.status, word: `${agent.status} since ${clock(agent.status_since, { seconds: false })}` };
  if (agent.built_in) return { name: "idle", word: agent.role };
  const at = lastHeard(agent);
  if (!at) return { name: "idle", word: mayAdminister() ? "not heard of yet" : "only an administrator sees whether it is there" };
  return isActive(at) ? { name: "working", word: `active · heard ${ago(at)}` } : { name: "idle", word: `quiet · heard ${ago(at)}` };
}

// heard says when an agent that works was last heard of.
const heard = (agent) => `working · heard ${ago(lastHeard(agent))}`;

// lastHeard is when an agent was last heard of, as far as anything says so.
export const lastHeard = (agent) => agent.heard_at ?? agent.backlog?.host_sessions?.[0]?.seen_at ?? agent.status_since;

// oldest is since when the oldest message waits for an agent: undelivered, or unread.
export function oldest(backlog) {
  const times = [backlog?.oldest_at, backlog?.unread_since].filter(Boolean).sort();
  return times[0];
}

// concerns reports whether an event may change what the page of an agent shows.
export const concerns = (name) => ({ data }) => !data?.recipient || data.recipient === name || data.sender === name;
