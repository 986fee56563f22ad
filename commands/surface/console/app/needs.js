// The problems that need a person: the findings of now and of doctor. The page requests them in one place, for the
// rail and for Now.

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { run } from "./api.js";
import { useCommand } from "./data.js";
import { tallies } from "./tallies.js";
import { plural } from "./words.js";

// needed is the result of the command now: {data, failure, loading, reload}.
export const needed = signal({ data: null, failure: null, loading: true, reload: () => {} });

// problems is the list of problems that the last run of doctor found and that now does not check.
export const problems = signal([]);

const changes = new Set(["failed", "expired", "replayed", "cancelled", "overdue", "held", "read", "answered"]);
const matters = ({ event, data }) => changes.has(event) || changes.has(data?.event);

// isFirst reports whether the database is still unused. The page then shows how to begin.
export const isFirst = (data) => data.messages === 0 && data.findings.every(({ code }) => code === "daemon");

// Standing keeps needed, problems, and the numbers in the rail up to date. It renders nothing.
export function Standing() {
  const first = needed.value.data && isFirst(needed.value.data);
  const asked = useCommand("now", {}, { matters, every: first ? 2000 : 10_000 });
  useEffect(() => {
    if (isMended(needed.value.data, asked.data)) examine();
    needed.value = asked;
  }, [asked.data, asked.failure, asked.loading]);
  useEffect(examineOften, []);
  useEffect(tell, [needed.value, problems.value]);
  return null;
}

// isMended reports whether a finding of now has disappeared. It may also have been the cause of a problem that doctor
// found.
function isMended(before, data) {
  const keys = new Set(data?.findings.map(keyOf));
  return !!before && !!data && before.findings.some((finding) => !keys.has(keyOf(finding)));
}

// tell sets the numbers in the rail.
function tell() {
  const { data } = needed.value;
  if (!data) return;
  const n = data.findings.length + others(data.findings).length, open = data.findings.find(({ code }) => code === "question")?.count ?? 0;
  tallies.value = {
    ...tallies.value,
    "": { n, hot: true, title: n === 1 ? "1 thing needs a person" : `${n} things need a person` },
    agents: { n: data.agents, title: plural(data.agents, "agent") },
    questions: { n: open, title: plural(open, "open question") },
  };
}

let examining = null;

// examine runs doctor without its slow checks, and returns how long that took. It does not run after each event.
function examine() {
  examining ??= (async () => {
    const begun = performance.now();
    try {
      const { findings } = await run("doctor", { try: false, quick: true });
      problems.value = findings.filter(({ level, now }) => level === "problem" && !now);
    } catch {
      // The command now, requested at the same time, fails as well.
    }
    examining = null;
    return performance.now() - begun;
  })();
  return examining;
}

// examineOften runs doctor about once a minute, less often if doctor is slow, and never while the page is hidden.
function examineOften() {
  let timer = setTimeout(look, 500);
  async function look() {
    const took = document.hidden ? 0 : await examine();
    timer = setTimeout(look, Math.max(60_000, 50 * took));
  }
  return () => clearTimeout(timer);
}

// keyOf returns a key that distinguishes a finding from all others.
export const keyOf = ({ code, about = "", id = "" }) => `${code} ${about} ${id}`;

// others returns the problems of doctor, without the transport problems of agents for which `findings` already
// reports failed messages.
export function others(findings) {
  const failing = new Set(findings.filter(({ code }) => code === "failed").map(({ about }) => about));
  return problems.value.filter(({ code, about }) => code !== "transport" || !failing.has(about));
}
