// A question: who asks, the text, and the answer given on this page.

import { useState } from "preact/hooks";
import { spoken } from "../../../../look/answer.js";
import { Held, Reply } from "../../../../look/reply.jsx";
import { fate } from "../../../../phone/app/words.js";
import { run } from "../../api.js";
import { answerTo, hold, typed, undo } from "../../desk/outbox.js";
import { wasRead } from "../../desk/reading.js";
import { mayAdminister } from "../../me.js";
import { ago, now, span } from "../../time.js";
import { Agent, Confirm, Hint, Icon, State, When } from "../../parts.jsx";
import { plural } from "../../words.js";
import { Offer } from "./desk.jsx";

const High = ({ question }) => (question.priority === "high" || question.priority === "urgent" ? <span class="state overdue"><Icon name="high" />{question.priority === "urgent" ? "Urgent" : "High priority"}</span> : null);

// asker returns who asks the question. If the question was decrypted, this is the encrypted name, because whoever can
// write the table can change the name there.
const asker = (q, what) => (q.encrypted && what ? what.from : q.source);

// Question renders a question that can be read here, or that this desk should be able to read.
export function Question({ question: q, desk, names, reload, forget }) {
  const mine = desk.questions?.get(q.questionId), what = q.encrypted ? (mine?.what ?? (desk.state === "active" ? wasRead(q.questionId)?.what : undefined)) : q;
  const failed = q.pushes.filter((p) => p.error), open = q.status === "pending", active = desk.state === "active";
  return (
    <article class="ask" data-id={q.questionId} tabIndex={-1}>
      <p class="meta"><span class="who"><Agent name={asker(q, what)} /></span><High question={q} />{!q.encrypted && <span class="state"><Icon name="unlock" />Not encrypted</span>}<time>{open ? `asked ${ago(q.createdAt)} · open until ` : "was open until "}<When at={q.expiresAt} seconds={false} /></time></p>
      {what ? <Asked id={q.questionId} what={what} /> : <Unread why={mine?.why} />}
      {!open && <p class="fate" role="status">{said(q, what, desk, names)}</p>}
      {open && what && active && mine?.what && <Answer q={q} what={mine.what} reload={reload} />}
      {open && what && !active && <Choices options={q.options} />}
      {open && failed.map((p) => <p key={p.device} class="warn">{names.get(p.device) ?? p.device} got no notification: {p.error}</p>)}
      {open && !names.size && <p class="warn">No device got a notification.</p>}
      {open && <TakeBack q={q} reload={() => (forget(), reload())} />}
    </article>
  );
}

const Asked = ({ id, what }) => <><p class="q" id={`${id}-asked`}>{what.question}</p>{what.context && <p class="ctx">{what.context}</p>}</>;

const Unread = ({ why }) => (
  <div class="lock"><Icon name="lock" /><p><b>This desk cannot read the question.</b><br /><span class="muted">{why ? `The question was encrypted for other devices, or it was changed in transit: ${why}.` : "The question was asked before you paired this desk. Devices that you paired earlier can answer it."}</span></p></div>
);

const Choices = ({ options }) => (options?.length ? <ul class="options" aria-label="Options">{options.map((option) => <li>{option}</li>)}</ul> : <p class="muted">The answer is free text.</p>);

// said returns the outcome of a question that closed while the person looked at it.
function said(q, what, desk, names) {
  const given = givenTo(q.questionId), mine = q.answeredBy === desk.device?.id;
  if (q.status === "answered" && !mine && names.has(q.answeredBy) && !given) return `Answered on ${names.get(q.answeredBy)}`;
  if (q.status === "answered" && mine && given?.late) return "Answered by this browser before your answer arrived";
  return fate({ status: q.status, mine, answer: given }, given?.taken && spoken(given.says, what?.options));
}

// givenTo returns the answer that this page sent to a question.
const givenTo = (id) => ["sending", "given"].includes(answerTo(id).state) && answerTo(id);

// Answer renders the form for the answer to a question, or the answer that is about to be sent.
function Answer({ q, what, reload }) {
  const id = q.questionId, options = what.options ?? [];
  const answer = answerTo(id), refused = answer.state === "refused";
  if (answer.state === "held") {
    return <div><Held answer={answer.says} options={options} until={answer.until} onUndo={(draft) => undo(id, draft)} /></div>;
  }
  if (answer.state === "sending") return <div>Sending your answer: {spoken(answer.says, options)}</div>;
  if (Date.parse(q.expiresAt) < now.value) return <p class="fate" role="status">{fate({ status: "expired" })}</p>;
  const draft = answer.draft ?? (refused && answer.says.text ? answer.says : undefined);
  return (
    <>
      {refused && <Refused says={answer.says} failure={answer.failure} options={options} />}
      <div onInput={(e) => typed(id, e.target.value)}>
        <Reply id={id} question={what.question} options={options} draft={draft} onAnswer={(says) => hold(id, says, reload)} />
      </div>
    </>
  );
}

// Refused reports that an answer was not accepted, with the reason and what to do. The form contains the text of the
// answer again.
const Refused = ({ says, failure, options }) => (
  <div class="problem" role="alert">
    <p>Your answer “{spoken(says, options)}” was not accepted.</p>
    <p><Hint text={[failure.message, failure.hint].filter(Boolean).join(" ")} /></p>
  </div>
);

function TakeBack({ q, reload }) {
  const [asks, setAsks] = useState(false);
  return (
    <div class="acts"><button class="btn quiet" type="button" disabled={!mayAdminister()} onClick={() => setAsks(true)}>Cancel the question…</button>{!mayAdminister() && <span class="why-not">only the asking agent or an administrator can cancel it</span>}
      {asks && (
        <Confirm title="Cancel this question?" word="Cancel the question" danger act={() => run("signal_cancel", { questionId: q.questionId, source: q.source })} onDone={(done) => (setAsks(false), done && reload())}>
          <p>After you cancel the question, nobody can answer it. Mailroom removes its notification from the devices, and notifies {q.source} that the question was canceled. You cannot undo this.</p>
        </Confirm>
      )}
    </div>
  );
}

// Locked renders the questions that are encrypted for other devices: how many there are, who asks, and since when.
export function Locked({ questions, desk, reload }) {
  return (
    <section class="ask locked">
      <div class="lock"><Icon name="lock" /><p><b>{plural(questions.length, "encrypted question")}</b><br /><span class="muted">Only a paired device can read {questions.length === 1 ? "it" : "them"}.{desk.state !== "unknown" && " After you pair this desk, it can read new questions."}</span></p>{desk.state === "none" && <Offer reload={reload} />}</div>
      <ul>{questions.map((q) => <li key={q.questionId}><p class="meta"><span class="who"><Agent name={q.source} /></span><High question={q} /><time>asked {ago(q.createdAt)} · open until <When at={q.expiresAt} seconds={false} /></time></p><TakeBack q={q} reload={reload} /></li>)}</ul>
    </section>
  );
}

// Over renders a closed question. It shows the text of an encrypted question only if this page has decrypted it.
export function Over({ question: q, desk, names }) {
  const on = names.get(q.answeredBy) ?? q.answeredBy, by = on ? `on ${on}` : "", what = q.encrypted ? desk.state === "active" && wasRead(q.questionId)?.what : q;
  const given = q.answeredBy === desk.device?.id && givenTo(q.questionId), word = q.answer || (what && given?.taken && spoken(given.says, what.options));
  return (
    <li>
      <p class="muted"><b class="agent">{asker(q, what)}</b><span><When at={q.endedAt || q.expiresAt} seconds={false} />{q.endedAt && `, waited ${span(Date.parse(q.endedAt) - Date.parse(q.createdAt))}`}</span></p>
      {what ? <p>{what.question}</p> : <p class="muted"><svg class="i in" aria-hidden="true"><use href="#i-lock" /></svg>encrypted</p>}
      {q.status === "answered" && <State name="delivered" word={word ? <span><b>{word}</b>{by && `, ${by}`}</span> : `answered ${by}`} />}
      {q.status === "expired" && <State name="expired" word="nobody answered in time" />}
      {q.status === "cancelled" && <State name="cancelled" word="canceled" />}
    </li>
  );
}
