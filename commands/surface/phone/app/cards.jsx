// Questions as cards, and the lines of the history. An item that cannot be read is a card too.
import { useErrorBoundary, useRef } from "preact/hooks";
import { alertType, alertWord } from "../../look/alerts.js";
import { Held, Reply } from "../../look/reply.jsx";
import { left } from "../../look/time.js";
import { Icon } from "./icon.jsx";
import { chosen, fate, when } from "./words.js";

// Whole renders the contents of a record, or the error if that fails, so that one broken record does not hide the
// others. It tries again when the record changes.
export function Whole({ as: Tag = "article", record, children }) {
  const [error] = useErrorBoundary(), failed = useRef();
  if (error && failed.current?.error !== error) failed.current = { error, record };
  if (failed.current?.record !== record) return children;
  const item = Tag === "li";
  return (
    <Tag class={item ? "line" : "card"} id={item ? undefined : record.id} tabindex="-1">
      <p>Cannot show this item: {error.message}.</p>
    </Tag>
  );
}

// Unreadable is shown in place of the contents of a record that cannot be read. `why` is the reason.
export const Unreadable = ({ why }) => (
  <div class="unreadable">
    <p>This item cannot be read on this device.</p>
    <p class="muted">It was encrypted for other devices, or it was changed in transit: {why}.</p>
  </div>
);

const Time = ({ at, ...more }) => <time datetime={at} title={new Date(at).toLocaleString()} {...more} />;

// Labels renders the properties of a question or alert beside its text: high priority, not encrypted, and the time at
// which it was created.
export const Labels = ({ record, what, children }) => (
  <p class="labels">
    {children}
    {what?.priority === "high" && <span><Icon name="high" />High priority</span>}
    {!record.encrypted && <span><Icon name="open" />Not encrypted</span>}
    <Time at={record.createdAt}>{when(record.createdAt)}</Time>
  </p>
);

export const Background = ({ what }) => what.context && <p class="context">{what.context}</p>;

// Project renders the name of the project of a question or alert.
export const Project = ({ name }) => name && <span class="project">{name}</span>;

// Question renders the card of a question. act has answer(id, given) and undo(id, draft, words).
export function Question({ record, said, act }) {
  const { what, why, sending, project } = said, ends = record.status === "pending" && record.expiresAt;
  return (
    <article class="card" id={record.id} tabindex="-1" aria-busy={sending && "true"}>
      <header class="head">
        <h2 class="from">{what ? what.from : "A question"}</h2>
        <Project name={project} />
        {ends && <Time at={record.expiresAt} class="left">{left(record.expiresAt)}</Time>}
        <Labels record={record} what={what} />
      </header>
      {what ? <p class="asked" id={`${record.id}-asked`}>{what.question}</p> : <Unreadable why={why} />}
      {what && <Background what={what} />}
      {record.problem && <p class="notice bad">Your answer was not accepted: {record.problem}</p>}
      {record.reopened && <p class="notice">Your answer did not pass the asker's check. Please answer again.</p>}
      {sending ? <p class="fate">Sending your answer: {chosen({ answer: sending }, what)}</p>
        : <Foot record={record} said={said} act={act} />}
    </article>
  );
}

function Foot({ record, said: { what, draft }, act }) {
  const { id, answer, due } = record, options = what?.options ?? [];
  if (record.status !== "pending") return <Fate record={record} what={what} />;
  if (record.queued && due > Date.now()) {
    return <Held answer={answer} options={options} until={due} onUndo={(...back) => act.undo(id, ...back)} />;
  }
  if (record.queued) return <Waiting record={record} what={what} act={act} />;
  if (Date.parse(record.expiresAt) < Date.now()) return <Fate record={{ status: "expired" }} />;
  const give = (given) => act.answer(id, given);
  return what && <Reply id={id} question={what.question} options={options} draft={draft} onAnswer={give} />;
}

const Fate = ({ record, what, children }) => (
  <p class="fate"><Icon name={record.mine ? "check" : "info"} />{fate(record, chosen(record, what))}{children}</p>
);

const Waiting = ({ record: { id, answer, tried }, what, act }) => (
  <div class="notice">
    <p class="fate"><Icon name="offline" />Your answer: {chosen({ answer }, what)}</p>
    <p>
      Saved on this device. The app sends the answer when there is a connection.
      {tried && " An attempt to send it was interrupted, so it might have arrived already."}
    </p>
    {!tried && (
      <button type="button" class="btn" onClick={() => act.undo(id, answer.text ? answer : undefined)}>
        Do not send it
      </button>
    )}
  </div>
);

// Line renders a record as a line of the history.
export function Line({ record, said: { what, why, project } }) {
  const plain = !record.encrypted && " (not encrypted)";
  return (
    <li class="line">
      <p class="head">
        <span class="from">{what?.from ?? "Unknown"}</span>
        <Project name={project} />
        <Time at={record.createdAt}>{when(record.createdAt)}</Time>
      </p>
      <p>{what ? (record.kind === "alert" ? what.message : what.question) : `Cannot be read: ${why}`}</p>
      {record.kind !== "alert" ? <Fate record={record} what={what}>{plain}</Fate>
        : <p class="fate">{what ? <><Icon name={alertType(what)} />{alertWord(what)} alert</> : "Alert"}{plain}</p>}
    </li>
  );
}
