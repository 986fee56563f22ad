// How an agent stands, in words.

import { ago, clock } from "./time.js";
import { plural } from "./words.js";

// disabledSince parts what is stored of a disabled agent, "TIME REASON", into both.
export function disabledSince(text) {
  const at = text.indexOf(" ");
  return at < 0 ? { at: text, why: "" } : { at: text.slice(0, at), why: text.slice(at + 1) };
}

const at = (time) => clock(time, { seconds: false });
const bad = true, warn = true;

// standings are how each state of an agent is shown: {name} of a state as State has it, a few words, and whether that needs a person.
// What is not known of the agent, as in the room, is left out of the words.
const standings = {
  disabled: ({ disabled }) => ({ name: "disabled", word: disabled ? `disabled since ${at(disabledSince(disabled).at)}` : "disabled", bad }),
  session_failed: ({ run }) => ({ name: "failed", word: run ? `its last session failed at ${at(run.since)}` : "its session failed", bad }),
  given_up: ({ run }) => ({ name: "failed", word: run ? `not restarted since ${at(run.since)}` : "not restarted", bad }),
  fails: () => ({ name: "failed", word: "messages to it failed", bad }),
  unread: () => ({ name: "silent", word: "does not read messages", warn }),
  silent: ({ status_since: since }) => ({ name: "silent", word: since ? `silent since ${at(since)}` : "silent", warn }),
  retries: ({ backlog }) => ({ name: "retry", word: backlog ? `${plural(backlog.retry, "message waits", "messages wait")} for a retry` : "retrying", warn }),
  waiting: () => ({ name: "working", word: "waits for messages" }),
  working: (agent) => ({ name: "working", word: agent.run?.state === "running" ? `its session has run since ${at(agent.run.started_at)}` : `working · heard ${ago(agent.heard_at)}` }),
  idle: ({ status_since: since }) => ({ name: "idle", word: since ? `idle since ${at(since)}` : "idle" }),
  stopped: ({ status_since: since }) => ({ name: "stopped", word: since ? `stopped since ${at(since)}` : "stopped" }),
  active: ({ heard_at: heard }) => ({ name: "working", word: `active · heard ${ago(heard)}` }),
  quiet: ({ heard_at: heard }) => ({ name: "idle", word: `quiet · heard ${ago(heard)}` }),
  "": () => ({ name: "idle", word: "not heard from yet" }),
};

// standing says how an agent is.
export function standing(agent) {
  if (agent.known === false) return { name: "stopped", word: "unknown name" };
  if (agent.built_in && agent.role && !standings[agent.state](agent).bad) return { name: "idle", word: agent.role };
  return (standings[agent.state] ?? standings[""])(agent);
}

// oldest is since when the oldest message waits for an agent: undelivered, or unread.
export function oldest(backlog) {
  const times = [backlog?.oldest_at, backlog?.unread_since].filter(Boolean).sort();
  return times[0];
}

// concerns reports whether an event may change what the page of an agent shows.
export const concerns = (name) => ({ data }) => !data?.recipient || data.recipient === name || data.sender === name;
