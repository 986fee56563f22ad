// The questions of agents to the user: the open questions, and the outcome of the others. A paired desk decrypts
// questions and can answer them.

import { useEffect, useRef, useState } from "preact/hooks";
import { look } from "../desk/pairing.js";
import { useAnswer, useCommand } from "../data.js";
import { useKeys } from "../keys.js";
import { connection } from "../live.js";
import { needed } from "../needs.js";
import { age } from "../time.js";
import { Command, Empty, Loaded, Problem, State, When } from "../parts.jsx";
import { plural, sentence } from "../words.js";
import { Alerts } from "./questions/alerts.jsx";
import { Locked, Over, Question } from "./questions/question.jsx";
import { Attention, ThisDesk } from "./questions/desk.jsx";

const most = 100; // maximum number of questions in one response

const matters = ({ data }) => !data?.recipient || data.recipient === "user" || data.recipient.startsWith("device:");

// focusOn moves the focus to the next open question, or to the previous one (by is -1). If no question has the focus,
// it moves the focus to the first.
function focusOn(by) {
  const list = [...document.querySelectorAll(".ask[data-id]:not(:has(> .fate))")], at = list.findIndex((ask) => ask.contains(document.activeElement));
  list[at < 0 ? 0 : Math.min(Math.max(at + by, 0), list.length - 1)]?.focus();
}

// choose presses an option, by its position, of the question that has the focus. If the option destroys or refuses
// something, or if the whole question is about that, choose only moves the focus to the option, so that a mistyped
// key is not an answer.
function choose(n) {
  const ask = document.activeElement.closest(".ask"), choices = [...(ask?.querySelectorAll(".choice") ?? [])], choice = choices[n - 1];
  if (!choice) return false;
  choice.focus();
  if (!choices[0].matches(".first") || choice.matches(".apart")) return true;
  ask.focus(); // keeps the focus when the answer replaces the options
  choice.click();
}

const keys = { j: () => focusOn(1), k: () => focusOn(-1), ...Object.fromEntries([1, 2, 3, 4, 5, 6, 7, 8, 9].map((n) => [n, () => choose(n)])) };

export function Questions({ rest: [id] }) {
  useKeys(keys, [["j k", "next question, previous question"], ["1 – 9", "choose the option with that number. For an option that destroys or refuses something, the key only moves the focus; to choose the option, press Enter"]]);
  const open = useCommand("signal_list", { all: true, status: "pending", limit: most }, { matters, every: 15_000 });
  const ended = useCommand("signal_list", { all: true, limit: most }, { matters, every: 60_000 });
  const devices = useCommand("signal_device_list", {}, { matters: () => false, every: 60_000 });
  const [waits, setWaits] = useState(false);
  const asked = useAnswer("desk", look, { matters, every: waits ? 2000 : 15_000 });
  const desk = (connection.value.state !== "ended" && asked.data) || { state: "unknown" };
  useEffect(() => {
    setWaits(desk.state === "waiting");
    devices.reload();
  }, [desk.state]);
  const n = open.data?.questions.length;
  useEffect(() => {
    if (n !== undefined) needed.value.reload(); // updates the numbers in the rail
  }, [n]);
  const names = new Map((devices.data?.devices ?? []).map((d) => [d.id, d.name]));
  const reload = () => (open.reload(), ended.reload(), asked.reload());
  return (
    <>
      <section class="lede"><h1>{headline(open.data)}</h1><p>{lead(open.data, devices.data, desk)}</p></section>
      <div class="cols close">
        <section class="asks">
          {id && ended.data && <NotOpen id={id} question={ended.data.questions.find((q) => q.questionId === id)} />}
          <Problem failure={desk.state === "unknown" ? asked.failure : null} retry={asked.reload} />
          <Attention desk={desk} reload={asked.reload} />
          <Loaded of={open}>{(data) => <Open desk={desk} open={data.questions} ended={ended.data?.questions ?? []} names={names} reload={reload} />}</Loaded>
          <Alerts desk={desk} />
          <Devices of={devices} desk={desk} reload={asked.reload} />
        </section>
        <aside class="answered"><div class="bar"><h2>Closed questions</h2></div>
          <Loaded of={ended}>{({ questions }) => {
            const over = questions.filter((q) => q.status !== "pending");
            return over.length ? <ul>{over.map((q) => <Over key={q.questionId} question={q} desk={desk} names={names} />)}</ul> : <p class="muted">None yet.</p>;
          }}</Loaded>
        </aside>
      </div>
    </>
  );
}

// NotOpen explains the state of the question in the address if the question is not open.
function NotOpen({ id, question }) {
  if (question?.status === "pending") return null;
  return <div class="problem note" role="status"><p>{question ? `The question ${id} is no longer open. Its status is ${question.status}.` : `The question ${id} is not among the newest ${most} questions. It might be older, deleted, or in another database.`} <a href="/questions">All questions</a></p></div>;
}

// Open renders the open questions, the oldest first. On a paired desk, a question that closes while the person looks
// at it stays and shows its outcome.
function Open({ desk, open, ended, names, reload }) {
  const shown = useRef(new Map());
  const active = desk.state === "active";
  for (const q of open) shown.current.set(q.questionId, q);
  const there = new Set(open.map((q) => q.questionId));
  const over = active ? ended.filter((q) => q.status !== "pending" && !there.has(q.questionId) && shown.current.has(q.questionId)) : [];
  const all = [...over, ...open].sort((a, b) => (a.createdAt < b.createdAt ? -1 : 1));
  const readable = active ? all : all.filter((q) => !q.encrypted), locked = active ? [] : all.filter((q) => q.encrypted);
  if (!all.length) return <Empty command="mailroom signal ask_question --as NAME --question 'Shall I go on?'">To ask for a decision, an agent runs a command like this:</Empty>;
  const forget = (q) => shown.current.delete(q.questionId);
  return (
    <>
      {readable.map((q) => <Question key={q.questionId} question={q} desk={desk} names={names} reload={reload} forget={() => forget(q)} />)}
      {locked.length > 0 && <Locked questions={locked} desk={desk} reload={reload} />}
    </>
  );
}

function headline(data) {
  if (!data) return "Questions";
  const n = data.questions.length;
  return n ? `${sentence(n, "question waits", "questions wait")} for you` : "No questions wait for you";
}

// lead returns how long the oldest question has waited, and where it can be answered.
function lead(data, devices, desk) {
  const first = data?.questions.at(-1), active = (devices?.devices ?? []).filter((d) => d.state === "active");
  const since = age(first?.createdAt), waited = !first ? "" : since === "now" ? "The oldest question arrived just now. " : `The oldest question has waited ${since}. `;
  if (!devices) return waited;
  if (!active.length) return `${waited}No device is paired, so nobody can answer.`;
  const here = desk.state === "active", others = active.filter((d) => d.id !== desk.device?.id);
  const where = !here ? (others.length === 1 ? `on ${others[0].name}` : `on one of ${plural(others.length, "device")}`)
    : others.length ? `in this browser or on ${others.length === 1 ? others[0].name : plural(others.length, "other device")}` : "in this browser";
  return `${waited}${first ? "Answer it" : "You can answer questions"} ${where}.${active.length > 1 ? " The first answer counts for all devices." : ""}`;
}

function Devices({ of, desk, reload }) {
  return (
    <section class="devices"><div class="bar"><h2>Devices</h2></div>
      <Loaded of={of}>{({ devices }) => (
        <>
          {devices.length > 0 && <table><tbody>{devices.map((d) => (
            <tr key={d.id}><td><b>{d.name}</b>{d.id === desk.device?.id && <span class="muted"> this desk</span>}</td><td>{d.state === "active" ? <State name="working" word={d.approved || d.kind === "ntfy" ? "active" : "active, not approved on this machine"} /> : <State name="stopped" word={d.state} />}</td><td class="num muted">{d.seenAt ? <>seen <When at={d.seenAt} seconds={false} /></> : "never seen"}</td></tr>
          ))}</tbody></table>}
          <ThisDesk desk={desk} reload={() => (reload(), of.reload())} />
          <p class="muted small">{devices.length ? "To pair another phone, run this command in a terminal on the daemon’s machine:" : "No device is paired, so nobody gets notifications of questions, and nobody can answer. To pair a phone, run this command in a terminal on the daemon’s machine:"}</p>
          <Command text="mailroom signal pair" />
        </>
      )}</Loaded>
    </section>
  );
}
