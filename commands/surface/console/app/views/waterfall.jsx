// The waterfall of a message: the actions and the waits on one time axis.

import { useState } from "preact/hooks";
import { State } from "../parts.jsx";
import { precise, span, utc } from "../time.js";
import { plural } from "../words.js";
import { fold, scale, sums } from "./story.js";

const fills = { sent: "c-strong", act: "c-strong", good: "c-good", bad: "c-bad" };
const hatches = { wait: "url(#h-wait)", dead: "url(#h-dead)", folded: "url(#h-wait)", ladder: "url(#h-wait)", person: "url(#h-wait)" };
const fill = (kind) => (hatches[kind] ? { fill: hatches[kind] } : { class: fills[kind] });

// Spent renders a strip that is true to scale: how the time was spent until the message was delivered, or until now.
export function Spent({ list, message }) {
  const part = list.filter((step) => !step.session);
  const delivered = part.find((step) => step.kind === "good");
  const start = part[0]?.from, end = delivered ? part.findLast((step) => step.kind === "good").to : part.at(-1)?.to;
  const whole = end - start;
  if (!(whole >= 1000)) return null;
  const shown = part.filter((step) => step.from < end), x = (at) => ((Math.min(at, end) - start) / whole) * 100;
  const total = sums(shown);
  const ends = part.some((step) => step.kind === "person" && !step.open) ? "from question to answer" : delivered ? "from send to delivery" : { failed: "since it was sent", expired: "since it was sent", cancelled: "until it was canceled" }[message.status] ?? "so far";
  return (
    <section class="spent">
      <div class="bar"><h2>{span(whole)} {ends}</h2><span class="muted">true to scale</span></div>
      <svg role="img" aria-label={total.map((t) => `${span(t.ms)} ${t.label}`).join(", ")}>
        {shown.map((step) => <rect x={`${x(step.from).toFixed(2)}%`} width={`${Math.max(0.15, x(step.to) - x(step.from)).toFixed(2)}%`} height="100%" {...fill(step.kind)} />)}
      </svg>
      <ul>{total.map((t) => <li><svg aria-hidden="true"><rect width="100%" height="100%" rx="2" {...fill(t.kind)} /></svg><b>{span(t.ms)}</b>{t.label}</li>)}</ul>
    </section>
  );
}

export function Waterfall({ list }) {
  const [linear, setLinear] = useState(false), [unfolded, setUnfolded] = useState(new Set());
  utc.value;
  if (!list.length) return <section><h2>What happened</h2><p class="muted">Nothing yet. Somebody wrote the message with SQL, and no delivery run has handled it.</p></section>;
  const shown = fold(list).flatMap((step) => (step.folded && unfolded.has(step.from) ? step.folded : [step]));
  const at = scale(shown, linear), start = list[0].from;
  return (
    <section>
      <div class="bar">
        <h2>What happened</h2>
        <span class="muted" title={linear ? undefined : "The width of each bar is proportional to the cube root of its duration"}>{linear ? "true to scale" : "long waits are drawn shorter"} · <button class="link" type="button" onClick={() => setLinear(!linear)}>{linear ? "shorten waits" : "to scale"}</button></span>
      </div>
      <div class="wf">
        <Axis list={shown} at={at} start={start} />
        {shown.map((step) => <Step step={step} at={at} start={start} onUnfold={() => setUnfolded(new Set(unfolded).add(step.from))} />)}
      </div>
    </section>
  );
}

// Axis labels the start of some steps, with enough space between the labels.
function Axis({ list, at, start }) {
  const ticks = [];
  for (const step of list) {
    const x = at(step.from);
    if (!["bad", "good", "sent", "act"].includes(step.kind) || (ticks.length && x - ticks.at(-1).x < 13)) continue;
    ticks.push({ x, text: step.from === start ? "0" : `+${span(step.from - start)}` });
  }
  return (
    <div class="axis">
      <span title={new Date(start).toISOString()}>{precise(start)}</span>
      <svg class="tr" aria-hidden="true">{ticks.map((t) => <text x={`${t.x.toFixed(1)}%`} y="17">{t.text}</text>)}</svg>
      <span class="num">took</span>
    </div>
  );
}

const tones = { bad: "r-bad", good: "r-good", dead: "r-bad" };

function Step({ step, at, start, onUnfold }) {
  const x = at(step.from), width = Math.max(0.9, at(step.to) - x), end = x + width, before = x > 100 - end;
  const room = before ? x : 100 - end, note = room > 20 && (step.note ?? "").split("\n")[0];
  const waits = hatches[step.kind];
  return (
    <div class={waits ? "wait" : ""} title={`+${span(step.from - start)}${step.note ? `: ${step.note}` : ""}`}>
      <div class="lab">
        {!waits && <State name={shapeClass(step)} shape={step.shape} word="" />}
        {step.folded ? <button class="link" type="button" onClick={onUnfold}>Show {step.label}</button> : step.href ? <a class="link" href={step.href}>{step.label}</a> : <span>{step.label}</span>}
      </div>
      <svg class="tr" aria-hidden="true">
        <rect x={`${x.toFixed(2)}%`} width={`${width.toFixed(2)}%`} y="25%" height="50%" rx="3" {...fill(step.kind)} />
        {note && <foreignObject x={before ? 0 : `${end.toFixed(2)}%`} width={`${room.toFixed(2)}%`} height="100%"><p class={`note ${tones[step.kind] ?? ""}${before ? " before" : ""}`}>{note}</p></foreignObject>}
      </svg>
      <div class="num">{step.to > step.from || step.open ? took(step.to - step.from) : ""}</div>
    </div>
  );
}

// took formats a duration. It includes the milliseconds if the duration is less than a minute.
const took = (ms) => (ms >= 1000 && ms < 60_000 ? `${(ms / 1000).toFixed(3)} s` : span(ms));

const shapeClass = (step) => ({ bad: step.shape === "expired" ? "expired" : "failed", good: "delivered", sent: "pending" })[step.kind] ?? (step.shape === "overdue" ? "overdue" : step.shape === "replay" ? "replayed" : step.shape === "delivered" ? "delivered" : "pending");

// Attempts renders the output of the transport for each attempt, the last first. It combines consecutive attempts
// with the same output.
export function Attempts({ list, recipient }) {
  const said = list.filter((step) => step.attempt && (step.output || step.note)).reverse();
  const groups = [];
  for (const step of said) {
    const last = groups.at(-1);
    if (last && last[0].kind === step.kind && last[0].note === step.note && (last[0].output ?? "") === (step.output ?? "")) last.push(step);
    else groups.push([step]);
  }
  if (!groups.length) return null;
  return (
    <section>
      <div class="bar"><h2>Output of the transport of {recipient}</h2></div>
      <ol class="tries">
        {groups.slice(0, 20).map((group) => <Group group={group} />)}
      </ol>
      {groups.length > 20 && <p class="muted">{plural(groups.length - 20, "earlier result is", "earlier results are")} not shown. To see all results, run <code>mailroom trace</code>.</p>}
    </section>
  );
}

function Group({ group }) {
  const [first] = group, good = first.kind === "good", last = group.at(-1);
  const name = group.length === 1 ? `Attempt ${first.attempt}` : `Attempts ${last.attempt} ${group.length === 2 ? "and" : "to"} ${first.attempt}`;
  return (
    <li>
      <p>
        <State name={good ? "delivered" : "failed"} word={`${name}${good ? "" : " failed"}`} />
        <span class="muted">{precise(group.at(-1).to)}{group.length > 1 && ` to ${precise(first.to)}, ${group.length} identical`}</span>
      </p>
      <pre class="out" tabIndex={0}>{first.note && <span class={good ? undefined : "bad"}>{first.note}{first.output ? "\n" : ""}</span>}{first.output}</pre>
    </li>
  );
}
