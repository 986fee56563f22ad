// The state of an agent, in words.

import { ago, clock } from "./time.js";
import { plural } from "./words.js";

// disabledSince splits the stored text of a disabled agent, "TIME REASON", into its two parts.
export function disabledSince(text) {
  const at = text.indexOf(" ");
  return at < 0 ? { at: text, why: "" } : { at: text.slice(0, at), why: text.slice(at + 1) };
}

const at = (time) => clock(time, { seconds: false });
const bad = true, warn = true;

// standings maps each state of an agent to how it is shown: the name of a state of the component State, a few words,
// and whether the state needs a person (bad, warn). The words leave out what is unknown about the agent, as in the
// room.
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

// standing returns how to show the state of an agent.
export function standing(agent) {
  if (agent.known === false) return { name: "stopped", word: "unknown name" };
  if (agent.built_in && agent.role && !standings[agent.state](agent).bad) return { name: "idle", word: agent.role };
  return (standings[agent.state] ?? standings[""])(agent);
}

// oldest returns the time since when the oldest undelivered or unread message has waited for an agent.
export function oldest(backlog) {
  const times = [backlog?.oldest_at, backlog?.unread_since].filter(Boolean).sort();
  return times[0];
}

// concerns returns a function that reports whether an event may change the page of an agent.
export const concerns = (name) => ({ data }) => !data?.recipient || data.recipient === name || data.sender === name;
