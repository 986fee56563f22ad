// How things stand: what needs a person, and what doctor finds. Asked for in one place, for the rail and for Now.

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { run } from "./api.js";
import { useCommand } from "./data.js";
import { tallies } from "./tallies.js";
import { plural } from "./words.js";

// needed is what the command now answers: {data, failure, loading, reload}.
export const needed = signal({ data: null, failure: null, loading: true, reload: () => {} });

// problems are what doctor found last. unsaid leaves out what stands among the needs already.
export const problems = signal([]);

const changes = new Set(["failed", "expired", "replayed", "cancelled", "overdue", "held", "read", "answered"]);
const matters = ({ event, data }) => changes.has(event) || changes.has(data?.event);

// isFirst reports whether nothing has happened in the database yet: then the page shows how to begin.
export const isFirst = (data) => data.messages === 0 && data.needs.every((need) => need.kind === "daemon");

// Standing keeps needed, problems and the rail's numbers up to date. It shows nothing.
export function Standing() {
  const first = needed.value.data && isFirst(needed.value.data);
  const asked = useCommand("now", {}, { matters, every: first ? 2000 : 10_000 });
  useEffect(() => {
    forget(needed.value.data, asked.data);
    needed.value = asked;
  }, [asked.data, asked.failure, asked.loading]);
  useEffect(examineOften, []);
  useEffect(tell, [needed.value, problems.value]);
  return null;
}

// forget drops what doctor found about agents that no need tells of any more, and has it look again: most likely that was mended, too.
function forget(before, data) {
  if (!before || !data) return;
  const now = agentsOf(data.needs), freed = new Set([...agentsOf(before.needs)].filter((agent) => !now.has(agent)));
  if (!freed.size) return;
  problems.value = problems.value.filter(({ agent }) => !freed.has(agent));
  examine();
}

// tell sets the rail's numbers.
function tell() {
  const { data } = needed.value;
  if (!data) return;
  const n = data.needs.length + unsaid(data.needs, problems.value).length;
  const open = data.needs.find((need) => need.kind === "question")?.count ?? 0;
  tallies.value = {
    ...tallies.value,
    "": { n, hot: true, title: n === 1 ? "1 thing needs a person" : `${n} things need a person` },
    agents: { n: data.agents, title: plural(data.agents, "agent") },
    questions: { n: open, title: plural(open, "open question") },
  };
}

let examining = null;

// examine has doctor look, but for what takes long, and says how long that took. It is not asked after each event.
function examine() {
  examining ??= (async () => {
    const begun = performance.now();
    try {
      const { findings } = await run("doctor", { try: false, quick: true });
      problems.value = findings.filter((finding) => finding.level === "problem");
    } catch {
      // the needs, asked at the same time, say what is wrong
    }
    examining = null;
    return performance.now() - begun;
  })();
  return examining;
}

// examineOften has doctor look about once a minute, less often where that takes long, and never while the page is hidden.
function examineOften() {
  let timer = setTimeout(look, 500);
  async function look() {
    const took = document.hidden ? 0 : await examine();
    timer = setTimeout(look, Math.max(60_000, 50 * took));
  }
  return () => clearTimeout(timer);
}

// agentsOf are the agents that are disabled, or to whom messages failed.
const agentsOf = (needs) => new Set(needs.filter((need) => need.kind === "disabled" || need.kind === "failed").map((need) => need.agent));

// unsaid are the problems that no need tells of.
export function unsaid(needs, found) {
  const kinds = new Set(needs.map((need) => need.kind)), said = agentsOf(needs);
  return found.filter(({ check, agent, host }) => {
    if (check === "overdue") return !kinds.has("overdue") && !kinds.has("disabled") && !kinds.has("daemon");
    if (check === "trust") return !kinds.has("trust");
    if (check === "unknown recipients") return !needs.some((need) => need.unknown);
    return !host && !(agent && said.has(agent));
  });
}
