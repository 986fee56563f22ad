// The plots on the page of an agent: its activity, its backlog, and the messages sent to it.

import { useCommand } from "../data.js";
import { mayAdminister } from "../me.js";
import { route, setQuery, to } from "../route.js";
import { concerns, oldest } from "../standing.js";
import { age, clock, span } from "../time.js";
import { Loaded, When } from "../parts.jsx";
import { count, plural } from "../words.js";

const ranges = { "1h": "hour", "24h": "day", "7d": "week" };

// Flow renders when an agent was active, what waits for it, and what is sent to it, now and over time.
export function Flow({ name, backlog }) {
  const since = Object.hasOwn(ranges, route.value.query.since) ? route.value.query.since : "24h";
  const stats = useCommand(mayAdminister() ? "stats" : null, { agent: name, since, waiting: true }, { matters: concerns(name), every: 60_000 });
  return (
    <>
      {mayAdminister() && (
        <figure class="plot there">
          <figcaption><div class="bar"><h2>Activity</h2><span class="ranges">{Object.entries(ranges).map(([value, word]) => <button class="link" type="button" aria-pressed={value === since} onClick={() => setQuery({ since: value })}>{word}</button>)}</span></div></figcaption>
          <Loaded of={stats}>{(data) => <Presence stats={data} sessions={backlog.host_sessions ?? []} />}</Loaded>
        </figure>
      )}
      <div class="duo">
        <Backlog name={name} backlog={backlog} stats={stats.data} />
        {mayAdminister() && (
          <figure class="plot">
            <figcaption><div class="bar"><h2>Sent to it</h2></div></figcaption>
            <Loaded of={stats}>{(data) => <Bars data={data} />}</Loaded>
          </figure>
        )}
      </div>
    </>
  );
}

// Strip renders a small plot from `since` until now, n units wide and `high` units high. `says` is shown between the
// two times.
const Strip = ({ label, n, high = 100, since, says, children }) => (
  <>
    <svg class="field" role="img" aria-label={label} viewBox={`0 0 ${n} ${high}`} preserveAspectRatio="none">
      {children}
      <line class="base-l" x1="0" x2={n} y1={high} y2={high} vector-effect="non-scaling-stroke" />
    </svg>
    <div class="ax" aria-hidden="true"><span>{clock(since, { seconds: false })}</span>{says && <span>{says}</span>}<span>now</span></div>
  </>
);

// Presence renders the intervals in which an agent sent or read something, and the sessions that its hosts reported.
// It skips the first interval of `stats`, which began before the selected hour, day, or week.
function Presence({ stats, sessions }) {
  const slots = stats.intervals.slice(1).map(({ at, wrote, read }) => ({ at: Date.parse(at), heard: wrote + read > 0, wrote, read })), n = slots.length;
  const begin = slots[0].at, step = slots[1].at - begin, heard = slots.filter((slot) => slot.heard).length;
  const sum = (what) => slots.reduce((all, slot) => all + slot[what], 0), wrote = sum("wrote"), read = sum("read");
  const says = heard || sessions.length ? `active in ${count(heard)} of ${intervals(n, step)}` : "no activity";
  const x = (at) => Math.max(0, Math.min(n, (at - begin) / step));
  const there = sessions.map((s) => [x(Date.parse(s.started_at)), x(s.state === "ended" ? Date.parse(s.seen_at) : Date.now())]).filter(([from, to]) => to > from);
  return (
    <>
      <p class="big">{says} <small>{[wrote && `sent ${count(wrote)}`, read && `read ${count(read)}`, silence(slots, step)].filter(Boolean).join(" · ") || "sent nothing and read nothing"}</small></p>
      <Strip label={`Activity since ${clock(begin)}: ${says}`} n={n} high={10} since={begin} says={there.length > 0 && `${plural(there.length, "host session")} below`}>
        {slots.map((slot, i) => slot.heard && <rect key={slot.at} class="c-strong" x={i} width="1" height="6"><title>{`${clock(slot.at)}: sent ${slot.wrote}, read ${slot.read}`}</title></rect>)}
        {there.map(([from, to]) => <rect class="c-ok" x={from} width={to - from} y="7" height="2"><title>Host session</title></rect>)}
      </Strip>
    </>
  );
}

// intervals returns a number of intervals of one length, in words.
const intervals = (n, step) => (step === 3_600_000 ? plural(n, "hour") : step === 60_000 ? plural(n, "minute") : plural(n, `interval of ${span(step)}`, `intervals of ${span(step)}`));

// silence returns the longest silence of an agent since its first activity, in words.
function silence(slots, step) {
  let longest = 0, until = 0, run = 0;
  for (const slot of slots.slice(slots.findIndex((one) => one.heard))) {
    run = slot.heard ? 0 : run + 1;
    if (run > longest) [longest, until] = [run, slot.at + step];
  }
  return longest > 1 && longest < slots.length ? `longest silence ${span(longest * step)}, until ${until > Date.now() ? "now" : clock(until, { seconds: false })}` : "";
}

function Backlog({ name, backlog, stats }) {
  const waiting = backlog.pending + backlog.retry, at = oldest(backlog);
  const parts = [["being delivered", backlog.leased], ["scheduled for later", backlog.later], ["waiting for a retry", backlog.retry], ["unread in its inbox", backlog.unread], ["shown, not yet confirmed", backlog.shown]].filter(([, n]) => n);
  return (
    <figure class="plot">
      <figcaption><div class="bar"><h2>Waiting or unread</h2>{waiting + backlog.unread > 0 && <a class="link" href={to(["messages"], { agent: name })}>Show them</a>}</div></figcaption>
      <p class="big">{count(waiting + backlog.unread)} <small>{at ? <>oldest {age(at)}, since <When at={at} /></> : "no messages"}</small></p>
      {stats && <Waited stats={stats} />}
      {parts.length > 0 && <dl class="facts wide-terms">{parts.map(([word, n]) => <><dt>{word}</dt><dd>{count(n)}</dd></>)}</dl>}
    </figure>
  );
}

// Waited renders how many messages waited at the end of each interval.
function Waited({ stats }) {
  const series = stats.waiting?.[0]?.messages ?? stats.intervals.map(() => 0), most = Math.max(...series), y = (v) => 100 - (100 * v) / Math.max(1, most);
  const line = series.map((v, i) => `${i ? "L" : "M"}${i} ${y(v)}H${i + 1}`).join("");
  return (
    <Strip label={`At most ${plural(most, "message")} waited since ${clock(stats.since)}`} n={series.length} since={stats.since} says={most > 0 && `at most ${count(most)}`}>
      {most > 0 && <path class="c-mid" d={`${line}V100H0Z`} />}
    </Strip>
  );
}

// Bars renders how many messages were sent in each interval, and how many of them failed.
function Bars({ data }) {
  const { intervals, total } = data, most = Math.max(1, ...intervals.map((i) => i.sent));
  const took = total.delivered_after, failed = total.failed + total.expired;
  return (
    <>
      <p class="big">{count(total.sent)} <small>{plural(total.delivered, "was", "were")} delivered{took ? `, half within ${span(took.p50_ms)}` : ""}{failed ? <>, <b class="bad">{count(failed)} failed</b></> : ""}</small></p>
      <Strip label={`${plural(total.sent, "message")} sent since ${clock(data.since)}`} n={intervals.length} since={data.since}>
        {intervals.map((interval, i) => {
          const height = (100 * interval.sent) / most, bad = (100 * Math.min(interval.sent, interval.failed + interval.expired)) / most;
          return <g key={interval.at}><title>{`${clock(interval.at)}: ${interval.sent} sent`}</title><rect class="c-mid" x={i + 0.1} width="0.8" y={100 - height} height={height} />{bad > 0 && <rect class="c-bad" x={i + 0.1} width="0.8" y={100 - bad} height={bad} />}</g>;
        })}
      </Strip>
    </>
  );
}
