// The plots of Now: deliveries, their duration, and the backlog. Their geometry is in SVG attributes.

import { age, clock, span } from "../time.js";
import { count } from "../words.js";

// spans maps each period that the plots can show to the parameter `every` of the command and to its words on the
// page.
export const spans = {
  "1h": { every: "1m", word: "hour", title: "The last hour", within: "the last hour", steps: "minute by minute", each: "per minute" },
  "6h": { every: "5m", word: "6 hours", title: "The last 6 hours", within: "the last 6 hours", steps: "in steps of 5 minutes", each: "per 5 minutes" },
  "24h": { every: "1h", word: "day", title: "The last day", within: "the last day", steps: "hour by hour", each: "per hour" },
};

export function Plots({ traffic, chosen, needs }) {
  const broke = brokeAt(traffic, needs);
  return (
    <div class="plots">
      <Delivered traffic={traffic} chosen={chosen} broke={broke} />
      <Took traffic={traffic} chosen={chosen} broke={broke} />
      <Backlog traffic={traffic} chosen={chosen} broke={broke} needs={needs} />
    </div>
  );
}

const round = (x) => Math.round(x * 100) / 100;

// brokeAt returns when the oldest problem that still exists began: {x, says, at}, with x in percent of the width. It
// returns null if there is none or if it began before the plot.
function brokeAt(traffic, needs) {
  const first = needs.filter((need) => need.since && (need.code === "failed" || need.code === "disabled")).sort((a, b) => a.since.localeCompare(b.since))[0];
  if (!first) return null;
  const begin = Date.parse(traffic.intervals[0].at), step = stepOf(traffic), end = begin + step * traffic.intervals.length;
  const x = (100 * (Math.floor((Date.parse(first.since) - begin) / step) * step)) / (end - begin);
  return x < 0 || x > 100 ? null : { x: round(x), says: first.code === "failed" ? `${short(first.about)} starts to fail` : `${short(first.about)} is disabled`, at: first.since };
}

const stepOf = ({ intervals: i }) => (i.length > 1 ? Date.parse(i[1].at) - Date.parse(i[0].at) : 60_000);

// nice returns the smallest round, even number that is at least n.
function nice(n) {
  if (n <= 2) return 2;
  const power = 10 ** Math.floor(Math.log10(n));
  return [1, 2, 3, 4, 6, 8, 10].map((m) => m * power).find((m) => m >= n && m % 2 === 0) ?? 10 * power;
}

function Grid({ lines, base = true }) {
  return lines.map(({ y, text }, i) => (
    <>
      <line class={base && i === lines.length - 1 ? "base-l" : "grid-l"} x1="0" x2="100%" y1={`${y}%`} y2={`${y}%`} />
      <text class="yl" x="0" dx="-8" y={`${y}%`} dy="4" text-anchor="end">{text}</text>
    </>
  ));
}

const Mark = ({ broke, says }) => broke && (
  <>
    <line class="mark-l" x1={`${broke.x}%`} x2={`${broke.x}%`} y1="-4" y2="100%" />
    {says && <text class="mark-t" x={`${broke.x}%`} dx={broke.x > 45 ? -6 : 6} y="6" text-anchor={broke.x > 45 ? "end" : "start"}>{broke.says}</text>}
  </>
);

function Axis({ traffic }) {
  const n = traffic.intervals.length;
  return <div class="ax" aria-hidden="true">{[0, 1, 2, 3].map((i) => <span>{clock(traffic.intervals[Math.min(n - 1, Math.round((i * (n - 1)) / 3))].at, { seconds: false })}</span>)}</div>;
}

// Rows renders a plot as a table, for people who cannot see the plot.
const Rows = ({ caption, heads, traffic, cells }) => (
  <div class="unseen">
    <table>
      <caption>{caption}</caption>
      <thead><tr><th>From</th>{heads.map((head) => <th>{head}</th>)}</tr></thead>
      <tbody>{traffic.intervals.map((one, i) => <tr><td>{clock(one.at, { seconds: false })}</td>{cells(one, i).map((cell) => <td>{cell}</td>)}</tr>)}</tbody>
    </table>
  </div>
);

function Delivered({ traffic, chosen, broke }) {
  const list = traffic.intervals, n = list.length, each = spans[chosen].each;
  const bad = (one) => one.failed + one.expired, all = (one) => one.delivered + one.attempts_failed + bad(one);
  const top = nice(Math.max(...list.map(all))), high = (v) => (100 * v) / top, last = list[Math.max(0, n - 2)];
  const sums = list.reduce((sum, one) => ({ again: sum.again + one.attempts_failed, failed: sum.failed + bad(one) }), { again: 0, failed: 0 });
  const outline = list.map((one, i) => `L${i} ${round(100 - high(all(one)))}L${i + 1} ${round(100 - high(all(one)))}`).join("");
  const bars = list.flatMap((one, i) => {
    let y = 100;
    return [["c-bad", bad(one)], ["c-warn", one.attempts_failed], ["c-ok", one.delivered]].filter(([, v]) => v > 0).map(([name, v]) => {
      y -= high(v);
      return <rect class={name} x={`${round((100 * i) / n)}%`} width={`${round(100 / n + 0.07)}%`} y={`${round(y)}%`} height={`${round(high(v))}%`} />;
    });
  });
  const says = `Messages delivered, retried, and failed ${each} in ${spans[chosen].within}: ${count(traffic.total.delivered)} delivered, ${count(sums.again)} attempts failed, ${count(sums.failed)} failed for good.${broke ? ` ${broke.says} at ${clock(broke.at)}.` : ""}`;
  return (
    <figure class="plot">
      <figcaption><h3>Delivered {each}</h3><p class="big">{count(last.delivered)} <small>now · {count(traffic.total.delivered)} in {spans[chosen].within}</small></p></figcaption>
      <div class="gutter left">
        <svg class="field" role="img" aria-label={says}>
          <Grid lines={[{ y: 0, text: count(top) }, { y: 50, text: count(top / 2) }, { y: 100, text: "0" }]} />
          {bars}
          <svg viewBox={`0 0 ${n} 100`} width="100%" height="100%" preserveAspectRatio="none"><path class="l sil" d={`M0 100${outline}`} /></svg>
          <Mark broke={broke} says />
        </svg>
        <Axis traffic={traffic} />
      </div>
      <p class="key left" aria-hidden="true"><span><Swatch name="c-ok" />delivered</span><span><Swatch name="c-warn" />retried {count(sums.again)}</span><span><Swatch name="c-bad" />failed {count(sums.failed)}</span></p>
      <Rows caption={`Delivered ${each}`} heads={["Delivered", "Retried", "Failed"]} traffic={traffic} cells={(one) => [one.delivered, one.attempts_failed, bad(one)]} />
    </figure>
  );
}

const Swatch = ({ name }) => <svg><rect class={name} width="100%" height="100%" rx="2" /></svg>;

const percentiles = [["99 %", "p99_ms", "l3", "ki", "99 of 100"], ["95 %", "p95_ms", "l2", "k2", "95 of 100"], ["half", "p50_ms", "l1", "k1", "half"]];

function Took({ traffic, chosen, broke }) {
  const list = traffic.intervals, n = list.length, total = traffic.total.delivered_after;
  const values = list.flatMap(({ delivered_after: p }) => (p ? [p.p50_ms, p.p99_ms] : [])).map((ms) => Math.max(1, ms));
  const low = Math.floor(Math.log10(Math.min(...values, 10))), top = Math.max(low + 2, Math.ceil(Math.log10(Math.max(...values, 10)) + 0.05));
  const y = (ms) => round(93 - (86 * (Math.log10(Math.max(1, ms)) - low)) / (top - low));
  const decades = [];
  for (let d = top - 1; d >= low; d -= top - low > 5 ? 2 : 1) decades.push({ y: y(10 ** d), text: span(10 ** d) });
  const line = (key) => {
    let d = "", on = false;
    list.forEach(({ delivered_after: p }, i) => {
      if (p) d += `${on ? "L" : "M"}${i + 0.5} ${y(p[key])}`;
      // An isolated interval gets a line as long as the interval.
      if (p && !list[i + 1]?.delivered_after) d += on ? "h.01" : "m-.5 0h1";
      on = !!p;
    });
    return d;
  };
  const ends = labels(total ? percentiles.map(([word, key, , name, many]) => ({ word, name, many, ms: total[key] })) : [], y);
  const says = total ? `Time to delivery in ${spans[chosen].within}: half of the messages within ${span(total.p50_ms)}, 95 of 100 within ${span(total.p95_ms)}, 99 of 100 within ${span(total.p99_ms)}.` : `No messages were delivered in ${spans[chosen].within}.`;
  return (
    <figure class="plot">
      <figcaption><h3>Time to delivery</h3><p class="big">{total ? span(total.p50_ms) : "–"} <small>{total ? `half of them · 1 in 100 takes ${span(total.p99_ms)}` : "no deliveries"}</small></p></figcaption>
      <div class="gutter">
        <svg class="field" role="img" aria-label={says}>
          <Grid lines={decades} base={false} />
          <svg viewBox={`0 0 ${n} 100`} width="100%" height="100%" preserveAspectRatio="none">{percentiles.map(([, key, name]) => <path class={`l ${name}`} d={line(key)} />)}</svg>
          <Mark broke={broke} />
          {ends.map(({ word, name, many, at, ms }) => <text class={name} x="100%" dx="8" y={`${at}%`} dy="4"><title>{`${many} within ${span(ms)}, in ${spans[chosen].within}`}</title>{word} {span(ms)}</text>)}
        </svg>
        <Axis traffic={traffic} />
      </div>
      <Rows caption="Time to delivery" heads={["Half within", "95 of 100 within", "99 of 100 within"]} traffic={traffic} cells={({ delivered_after: p }) => (p ? [span(p.p50_ms), span(p.p95_ms), span(p.p99_ms)] : ["", "", ""])} />
    </figure>
  );
}

// labels moves overlapping labels apart, from the top down, and keeps them beside the plot.
function labels(list, y) {
  let above = -20, below = 100 + 13;
  const moved = list.map((one) => ({ ...one, at: (above = Math.max(y(one.ms), above + 13)) }));
  return moved.reverse().map((one) => ({ ...one, at: (below = Math.min(one.at, below - 13)) }));
}

const colours = { failed: ["c-bad", "kbad"], overdue: ["c-warn", "kwarn"], unread: ["c-warn", "kwarn"] };

// layers returns the recipients with the most waiting messages, and all others together: [{name, fill, values}], the
// lowest layer first.
function layers(traffic, needs) {
  const n = traffic.intervals.length, waiting = traffic.waiting ?? [];
  const of = (name) => colours[needs.find((need) => need.about === name && colours[need.code])?.code] ?? ["c-quiet", "ki"];
  const list = waiting.slice(0, 3).map(({ recipient, messages }) => ({ name: recipient, fill: of(recipient), values: messages }));
  const rest = waiting.slice(3);
  if (rest.length) list.push({ name: "others", fill: ["c-quiet", "ki"], values: Array.from({ length: n }, (_, i) => rest.reduce((sum, one) => sum + one.messages[i], 0)) });
  const order = ["c-quiet", "c-warn", "c-bad"];
  return list.sort((a, b) => order.indexOf(a.fill[0]) - order.indexOf(b.fill[0]));
}

function Backlog({ traffic, chosen, broke, needs }) {
  const n = traffic.intervals.length, list = layers(traffic, needs), sums = Array.from({ length: n }, (_, i) => list.reduce((sum, one) => sum + one.values[i], 0));
  const top = nice(Math.max(...sums)), y = (v) => round(100 - (100 * v) / top), now = sums[n - 1];
  const oldest = needs.filter((need) => ["overdue", "unread", "disabled"].includes(need.code) && need.since).map((need) => need.since).sort()[0];
  let below = Array(n).fill(0);
  const drawn = list.map((layer) => {
    const from = below, over = from.map((v, i) => v + layer.values[i]);
    below = over;
    const edge = over.map((v, i) => `${i ? "L" : "M"}${i + 0.5} ${y(v)}`).join("");
    const back = from.map((v, i) => `L${i + 0.5} ${y(v)}`).reverse().join("");
    return { ...layer, edge, area: `${edge}${back}Z`, middle: (from[n - 1] + over[n - 1]) / 2 };
  });
  const ends = labels(drawn.filter((one) => one.values[n - 1] > 0).reverse().map((one) => ({ ...one, ms: one.middle })), y);
  const says = now ? `Waiting messages by recipient in ${spans[chosen].within}. Now: ${list.filter((one) => one.values[n - 1]).map((one) => `${one.name} ${one.values[n - 1]}`).join(", ")}.` : `No messages are waiting.`;
  return (
    <figure class="plot">
      <figcaption><h3>Backlog</h3><p class="big">{count(now)} <small>waiting{oldest ? ` · oldest ${age(oldest)}` : ""}</small></p></figcaption>
      <div class="gutter">
        <svg class="field" role="img" aria-label={says}>
          <Grid lines={[{ y: 0, text: count(top) }, { y: 50, text: count(top / 2) }, { y: 100, text: "0" }]} />
          <svg viewBox={`0 0 ${n} 100`} width="100%" height="100%" preserveAspectRatio="none">
            {drawn.map((one) => <path class={one.fill[0]} d={one.area} />)}
            {drawn.filter((one) => one.fill[0] === "c-quiet").map((one) => <path class="l edge" d={one.edge} />)}
          </svg>
          <Mark broke={broke} />
          {ends.map((one) => <text class={one.fill[1]} x="100%" dx="8" y={`${one.at}%`} dy="4">{short(one.name)} {count(one.values[n - 1])}</text>)}
        </svg>
        <Axis traffic={traffic} />
      </div>
      <Rows caption="Waiting messages" heads={list.map((one) => one.name)} traffic={traffic} cells={(_, i) => list.map((one) => one.values[i])} />
    </figure>
  );
}

// short shortens a name so that it fits beside a plot. The table below the plot contains the whole name.
const short = (name) => (name.length > 9 ? `${name.slice(0, 8)}…` : name);
