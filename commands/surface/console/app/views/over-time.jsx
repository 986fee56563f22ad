// The number of messages sent over time, above the list of messages. To list only the messages of a period, drag over
// the plot, or use the arrow keys and Enter.

import { useEffect, useRef, useState } from "preact/hooks";
import { useCommand } from "../data.js";
import { go, to } from "../route.js";
import { clock } from "../time.js";
import { count } from "../words.js";

const minute = 60_000, hour = 60 * minute, day = 24 * hour;
const most = 96; // maximum number of bars
const steps = [1, 2, 5, 10, 15, 20, 30, 60, 120, 180, 360, 720, 1440].map((n) => n * minute);
// The counters have one-minute intervals as far back as byMinute, and no data older than kept.
const byMinute = 48 * hour, kept = 90 * day;

// counted is the set of filters that the counters support. For any other filter, the messages would have to be read.
const counted = new Set(["to", "since", "until", "archived"]);

// readTime converts a time of a filter, an absolute time or an age, to milliseconds. It returns NaN for any other
// text.
function readTime(text) {
  const [, n, unit] = /^(\d+)([smhd])$/.exec(text) ?? [];
  return unit ? Date.now() - n * { s: 1000, m: minute, h: hour, d: day }[unit] : Date.parse(text);
}

// windowOf returns the period that a filter selects, or the last `back` milliseconds, divided into intervals: {from,
// until, step}. It returns null if the counters cannot answer.
function windowOf(filter, back) {
  if (Object.keys(filter).some((key) => !counted.has(key))) return null;
  const now = Date.now(), until = filter.until ? Math.min(now, readTime(filter.until)) : now;
  const from = Math.max(filter.since ? readTime(filter.since) : until - back, now - kept + 2 * day);
  if (!(from < until)) return null;
  const least = now - from < byMinute - hour ? 0 : hour;
  const step = steps.find((one) => one >= least && (until - from) / one <= most) ?? steps.at(-1);
  return { from: Math.floor(from / step) * step, until, step };
}

// OverTime renders the plot if the counters can answer and the period is not empty.
export function OverTime({ filter }) {
  const [first, setFirst] = useState(null); // when the first message of the last day was sent
  // If all messages of the last day are recent, back is a shorter period, so that the bars fill the width.
  const back = [hour, 3 * hour, 8 * hour].find((length) => Date.now() - Date.parse(first) < length) ?? day;
  const window = windowOf(filter, back), { from, until, step } = window ?? {};
  const params = window && { since: `${Math.ceil((Date.now() - from) / step) * (step / minute)}m`, every: `${step / minute}m`, ...(filter.to && { agent: filter.to }) };
  const { data } = useCommand(window ? "stats" : null, params ?? {}, { matters: () => false, every: 15_000 });
  useEffect(() => setFirst(null), [filter.to]);
  useEffect(() => {
    if (back === day && !filter.since && data) setFirst(data.intervals.find((bar) => bar.sent)?.at ?? null);
  }, [data]);
  if (!window || !data) return null;
  // length is the interval of the current data, which may still be that of the previous request.
  const length = data.intervals.length > 1 ? Date.parse(data.intervals[1].at) - Date.parse(data.intervals[0].at) : step;
  const bars = data.intervals.filter(({ at }) => Date.parse(at) >= from && Date.parse(at) < until);
  if (!bars.some((bar) => bar.sent + bar.failed + bar.expired)) return null;
  const choose = (first, last) => {
    const end = Date.parse(bars[last].at) + length - 1;
    go(to(["messages"], { ...filter, since: bars[first].at, until: end < Date.now() ? new Date(end).toISOString() : filter.until }));
  };
  return <Bars bars={bars} step={length} choose={choose} />;
}

function Bars({ bars, step, choose }) {
  const field = useRef(), [at, setAt] = useState(null); // the bars that the pointer selects: {first, last, held}
  const n = bars.length, bad = (bar) => bar.failed + bar.expired, top = Math.max(...bars.map((bar) => Math.max(bar.sent, bad(bar))));
  const low = at && Math.min(at.first, at.last, n - 1), high = at && Math.min(Math.max(at.first, at.last), n - 1);
  const says = at ? saysOf(bars.slice(low, high + 1), step, bad) : "";
  const pointed = (event) => {
    const { left, width } = field.current.getBoundingClientRect();
    return Math.max(0, Math.min(n - 1, Math.floor(((event.clientX - left) / width) * n)));
  };
  const down = (event) => {
    if (event.button) return;
    field.current.setPointerCapture(event.pointerId);
    setAt({ first: pointed(event), last: pointed(event), held: true });
  };
  const move = (event) => setAt(at?.held ? { ...at, last: pointed(event) } : { first: pointed(event), last: pointed(event) });
  const up = () => at?.held && (setAt(null), choose(low, high));
  const key = (event) => {
    const last = { ArrowLeft: (at?.last ?? n) - 1, ArrowRight: (at?.last ?? -1) + 1, Home: 0, End: n - 1 }[event.key];
    if (last !== undefined) setAt({ first: event.shiftKey && at ? at.first : Math.max(0, Math.min(n - 1, last)), last: Math.max(0, Math.min(n - 1, last)) });
    else if (event.key === "Escape" && at) setAt(null);
    else if (event.key === "Enter" && at) choose(low, high);
    else return;
    event.preventDefault();
  };
  const rect = (name, i, value) => value > 0 && <rect class={name} x={i} width="1" y={100 - (100 * value) / top} height={(100 * value) / top} />;
  return (
    <figure class="when plot">
      <div ref={field} class="over-time" role="slider" tabIndex={0} aria-label="Messages sent over time" aria-valuemin={0} aria-valuemax={n - 1} aria-valuenow={at?.last ?? n - 1}
        aria-valuetext={says || "To choose a time, press an arrow key. To choose a period, hold Shift and press an arrow key. To show the messages, press Enter"}
        onPointerDown={down} onPointerMove={move} onPointerUp={up} onPointerLeave={() => at?.held || setAt(null)} onPointerCancel={() => setAt(null)} onKeyDown={key} onBlur={() => setAt(null)}>
        <svg viewBox={`0 0 ${n} 100`} preserveAspectRatio="none" aria-hidden="true">
          {at && <rect class="c-pointed" x={low} width={high - low + 1} y="0" height="100" />}
          {bars.map((bar, i) => <>{rect(at && i >= low && i <= high ? "c-mid" : "c-ok", i, bar.sent)}{rect("c-bad", i, bad(bar))}</>)}
          <line class="base-l" x1="0" x2={n} y1="100" y2="100" vector-effect="non-scaling-stroke" />
        </svg>
      </div>
      <div class="ax" aria-hidden="true"><span>{time(bars[0].at)}</span><span>{says}</span><span>{time(Date.parse(bars.at(-1).at) + step)}</span></div>
    </figure>
  );
}

const time = (at) => clock(at, { seconds: false });

// saysOf returns how many messages were sent in some intervals, and how many failed in that time.
function saysOf(list, step, bad) {
  const sent = list.reduce((sum, bar) => sum + bar.sent, 0), failed = list.reduce((sum, bar) => sum + bad(bar), 0);
  return `${time(list[0].at)} to ${time(Date.parse(list.at(-1).at) + step)}: ${count(sent)} sent${failed ? `, ${count(failed)} failed` : ""}`;
}
