// What agents ask the user: what is open, and what became of the rest.

import { useEffect, useState } from "preact/hooks";
import { run } from "../api.js";
import { useCommand } from "../data.js";
import { mayAdminister } from "../me.js";
import { tally } from "../tallies.js";
import { age, span } from "../time.js";
import { Agent, Command, Confirm, Empty, Icon, Loaded, State, When } from "../parts.jsx";
import { plural, sentence } from "../words.js";

const most = 100; // that one answer holds

const matters = ({ data }) => !data?.recipient || data.recipient === "user" || data.recipient.startsWith("device:");

export function Questions() {
  const open = useCommand("signal_list", { all: true, status: "pending", limit: most }, { matters, every: 15_000 });
  const ended = useCommand("signal_list", { all: true, limit: most }, { matters, every: 60_000 });
  const devices = useCommand("signal_device_list", {}, { matters: () => false, every: 60_000 });
  const n = open.data?.questions.length;
  useEffect(() => {
    if (n !== undefined) tally("questions", { n, title: `${plural(n, "question waits", "questions wait")} for an answer` });
  }, [n]);
  const names = new Map((devices.data?.devices ?? []).map((d) => [d.id, d.name]));
  const over = (ended.data?.questions ?? []).filter((q) => q.status !== "pending");
  return (
    <>
      <section class="lede"><h1>{headline(open.data)}</h1><p>{lead(open.data, devices.data)}</p></section>
      <div class="cols close">
        <section class="asks">
          <Loaded of={open}>{(data) => (data.questions.length
            ? data.questions.toReversed().map((q) => <Question key={q.questionId} question={q} names={names} reload={() => (open.reload(), ended.reload())} />)
            : <Empty command="mailroom signal ask_question --as NAME --question 'Shall I go on?'">An agent that needs a decision asks like this:</Empty>)}
          </Loaded>
          <Devices of={devices} />
        </section>
        <aside class="answered"><div class="bar"><h2>Answered and over</h2></div>
          <Loaded of={ended}>{() => (over.length ? <ul>{over.map((q) => <Over key={q.questionId} question={q} names={names} />)}</ul> : <p class="muted">None yet.</p>)}</Loaded>
        </aside>
      </div>
    </>
  );
}

function headline(data) {
  if (!data) return "Questions";
  const n = data.questions.length;
  return n ? `${sentence(n, "question waits", "questions wait")} for you` : "No question waits for you";
}

// lead says how long the first has waited, and where it can be answered.
function lead(data, devices) {
  const first = data?.questions.at(-1), phones = (devices?.devices ?? []).filter((d) => d.state === "active");
  const where = devices ? (phones.length ? `Answer on ${phones.length === 1 ? phones[0].name : `one of ${plural(phones.length, "device")}`}; who answers first answers for all.` : "No phone is paired, so nobody can answer.") : "";
  return first ? `The first has waited ${age(first.createdAt)}. ${where}` : where;
}

const High = ({ question }) => (question.priority === "high" || question.priority === "urgent" ? <span class="state overdue"><Icon name="high" />{question.priority === "urgent" ? "Urgent" : "High priority"}</span> : null);

function Question({ question: q, names, reload }) {
  const [asks, setAsks] = useState(false);
  const failed = q.pushes.filter((p) => p.error);
  return (
    <article class="ask">
      <p class="meta"><span class="who"><Agent name={q.source} /></span><High question={q} />{!q.encrypted && <span class="state"><Icon name="unlock" />Not encrypted</span>}<time>waits {age(q.createdAt)} · open until <When at={q.expiresAt} seconds={false} /></time></p>
      {q.encrypted
        ? <div class="lock"><Icon name="lock" /><p><b>Only a paired phone can open it.</b><br /><span class="muted">It is encrypted for the phones that were paired when it was asked.</span></p></div>
        : <><p class="q">{q.question}</p>{q.context && <p class="ctx">{q.context}</p>}{q.options?.length > 0 ? <ul class="options" aria-label="Options">{q.options.map((option) => <li>{option}</li>)}</ul> : <p class="muted">It is answered in words.</p>}</>}
      {failed.map((p) => <p key={p.device} class="warn">{names.get(p.device) ?? p.device} has not been told: {p.error}</p>)}
      {!q.pushes.length && <p class="warn">No device has been told of it.</p>}
      <div class="acts"><button class="btn" type="button" disabled={!mayAdminister()} onClick={() => setAsks(true)}>Take it back…</button>{!mayAdminister() && <span class="why-not">only who asked and an administrator take it back</span>}</div>
      {asks && (
        <Confirm title="Take this question back?" word="Take it back" danger act={() => run("signal_cancel", { questionId: q.questionId, source: q.source })} onDone={(done) => (setAsks(false), done && reload())}>
          <p>Nobody can answer it any more, its notification goes from the devices, and {q.source} is told that it was cancelled. This cannot be undone.</p>
        </Confirm>
      )}
    </article>
  );
}

function Over({ question: q, names }) {
  const on = names.get(q.answeredBy) ?? q.answeredBy, by = on ? `on ${on}` : "";
  return (
    <li>
      <p class="muted"><b class="agent">{q.source}</b><span><When at={q.endedAt || q.expiresAt} seconds={false} />{q.endedAt && `, waited ${span(Date.parse(q.endedAt) - Date.parse(q.createdAt))}`}</span></p>
      {q.encrypted ? <p class="muted"><svg class="i in" aria-hidden="true"><use href="#i-lock" /></svg>encrypted: only a paired phone can open it</p> : <p>{q.question}</p>}
      {q.status === "answered" && <State name="delivered" word={q.answer ? <span><b>{q.answer}</b>{by && `, ${by}`}</span> : `answered ${by}`} />}
      {q.status === "expired" && <State name="expired" word="nobody answered in time" />}
      {q.status === "cancelled" && <State name="cancelled" word="taken back" />}
    </li>
  );
}

function Devices({ of }) {
  return (
    <section class="devices"><div class="bar"><h2>Devices</h2></div>
      <Loaded of={of}>{({ devices }) => (
        <>
          {devices.length > 0 && <table><tbody>{devices.map((d) => (
            <tr key={d.id}><td><b>{d.name}</b></td><td>{d.state === "active" ? <State name="working" word={d.approved || d.kind !== "app" ? "active" : "active, not approved here"} /> : <State name="stopped" word={d.state} />}</td><td class="num muted">{d.seenAt ? <>seen <When at={d.seenAt} seconds={false} /></> : "never seen"}</td></tr>
          ))}</tbody></table>}
          <p class="muted small">{devices.length ? "Another phone is paired like this, in a terminal of this machine:" : "No phone is paired: nobody is told of a question, and nobody can answer. In a terminal of this machine:"}</p>
          <Command text="mailroom signal pair" />
        </>
      )}</Loaded>
    </section>
  );
}
