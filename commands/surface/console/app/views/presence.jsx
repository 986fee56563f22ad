// When an agent was there: the intervals in which it sent or read something, and the sessions that its hosts tell of.

import { clock, span } from "../time.js";
import { count, plural } from "../words.js";

export function Presence({ stats, sessions }) {
  const slots = stats.intervals.map(({ at, wrote, read }) => ({ at: Date.parse(at), heard: wrote + read > 0, wrote, read })), n = slots.length;
  const begin = slots[0].at, step = n > 1 ? slots[1].at - begin : 60_000, end = begin + n * step;
  const heard = slots.filter((slot) => slot.heard).length, { wrote, read } = stats.total;
  const says = heard || sessions.length ? `in ${count(heard)} of ${intervals(n, step)}` : "never";
  const x = (at) => Math.max(0, Math.min(n, (at - begin) / step));
  const there = sessions.map((s) => [x(Date.parse(s.started_at)), x(s.state === "ended" ? Date.parse(s.seen_at) : Date.now())]).filter(([from, to]) => to > from);
  return (
    <>
      <p class="big">{says} <small>{[wrote && `it sent ${count(wrote)}`, read && `read ${count(read)}`, silence(slots, step)].filter(Boolean).join(" · ") || "it sent nothing, and read nothing"}</small></p>
      <svg class="field" role="img" aria-label={`Heard of it ${says} since ${clock(begin)}`} viewBox={`0 0 ${n} 10`} preserveAspectRatio="none">
        {slots.map((slot, i) => slot.heard && <rect key={slot.at} class="c-strong" x={i} width="1" height="6"><title>{`${clock(slot.at)}: sent ${slot.wrote}, read ${slot.read}`}</title></rect>)}
        {there.map(([from, to]) => <rect class="c-ok" x={from} width={to - from} y="7" height="2"><title>A session of its host</title></rect>)}
        <line class="base-l" x1="0" x2={n} y1="10" y2="10" vector-effect="non-scaling-stroke" />
      </svg>
      <div class="ax" aria-hidden="true"><span>{clock(begin, { seconds: false })}</span>{there.length > 0 && <span>{plural(there.length, "session")} of its host below</span>}<span>{end > Date.now() ? "now" : clock(end, { seconds: false })}</span></div>
    </>
  );
}

// intervals names so many of a length.
const intervals = (n, step) => (step === 3_600_000 ? plural(n, "hour") : step === 60_000 ? plural(n, "minute") : plural(n, `interval of ${span(step)}`, `intervals of ${span(step)}`));

// silence says how long an agent was silent at most, since it was first heard of.
function silence(slots, step) {
  let longest = 0, until = 0, run = 0;
  for (const slot of slots.slice(slots.findIndex((one) => one.heard))) {
    run = slot.heard ? 0 : run + 1;
    if (run > longest) [longest, until] = [run, slot.at + step];
  }
  return longest > 1 && longest < slots.length ? `silent for ${span(longest * step)} at most, until ${until > Date.now() ? "now" : clock(until, { seconds: false })}` : "";
}
