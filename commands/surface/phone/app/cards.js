// Questions as cards, and the lines of the history. What cannot be read is a card too.
import { answerForm, heldAnswer } from "../../look/answer.js";
import { alertType, alertWord } from "../../look/alerts.js";
import { make } from "../../look/dom.js";
import { left } from "../../look/time.js";
import { icon, time } from "./dom.js";
import { chosen, fate, when } from "./words.js";

// whole makes what build makes, or tag in its place when that fails: one record that is odd keeps no other from view.
export function whole(tag, record, build) {
  try {
    return build();
  } catch (error) {
    return make(tag, { class: tag === "li" ? "line" : "card", id: tag !== "li" && record.id, tabindex: "-1" }, make("p", {}, `This cannot be shown: ${error.message}.`));
  }
}

// What is shown of a record: `what` is what it says, `why` is why it cannot be read.
export const unreadable = (why) =>
  make("div", { class: "unreadable" },
    make("p", {}, "This cannot be read on this device."),
    make("p", { class: "muted" }, `It was sealed for other devices, or changed on its way: ${why}.`));

// labels say of a question or alert what is no matter of its own: that it is urgent, or not encrypted, and when it came.
export const labels = (record, what, ...first) =>
  make("p", { class: "labels" }, first,
    what?.priority === "high" && make("span", {}, icon("high"), "High priority"),
    !record.encrypted && make("span", {}, icon("open"), "Not encrypted"),
    time(record.createdAt, when(record.createdAt)));

export const background = (what) => what.context && make("p", { class: "context" }, what.context);

// project is the name of what a question or alert belongs to.
export const project = (name) => name && make("span", { class: "project" }, name);

// ends says how long a question is still open. Its words are kept true where it stands, see keepTime.
const ends = (record) => record.status === "pending" && record.expiresAt &&
  make("time", { class: "left", "data-left": true, datetime: record.expiresAt, title: new Date(record.expiresAt).toLocaleString() }, left(record.expiresAt));

// keepTime brings the times up to date that say how long something is still open.
export function keepTime() {
  for (const element of document.querySelectorAll("[data-left]")) {
    const words = left(element.dateTime);
    if (element.textContent !== words) element.textContent = words;
  }
}

// question makes the card of a question; act has answer(id, given), withdraw(id) and addWords(id).
export function question(record, { what, why, sending, project: name, draft }, act) {
  return make("article", { class: "card", id: record.id, tabindex: "-1", "aria-busy": sending && "true" },
    make("header", { class: "head" }, make("h2", { class: "from" }, what ? what.from : "A question"), project(name), ends(record), labels(record, what)),
    what ? make("p", { class: "asked", id: `${record.id}-asked` }, what.question) : unreadable(why),
    what && background(what),
    record.problem && make("p", { class: "notice bad" }, `The answer was not taken: ${record.problem}`),
    record.reopened && make("p", { class: "notice" }, "Your answer did not pass the asker's check. Please answer again."),
    sending
      ? make("p", { class: "fate" }, `Sending your answer: ${chosen({ answer: sending }, what)}`)
      : foot(record, what, draft, act));
}

function foot(record, what, draft, act) {
  if (record.status !== "pending") return make("p", { class: "fate" }, icon(record.mine ? "check" : "info"), fate(record, chosen(record, what)));
  if (record.queued && record.due > Date.now()) {
    const { answer, due } = record;
    return heldAnswer({ answer, options: what?.options, until: due, onUndo: () => act.withdraw(record.id), onWords: () => act.addWords(record.id) });
  }
  if (record.queued) return waiting(record, what, act);
  const overdue = Date.parse(record.expiresAt) < Date.now();
  if (overdue) return make("p", { class: "fate" }, icon("info"), fate({ status: "expired" }));
  return what && answerForm({ id: record.id, question: what.question, options: what.options ?? [], draft, onAnswer: (given) => act.answer(record.id, given) });
}

function waiting(record, what, act) {
  return make("div", { class: "notice" },
    make("p", { class: "fate" }, icon("offline"), `Your answer: ${chosen(record, what)}`),
    make("p", {}, "Kept on this device. It will be sent when there is a connection.",
      record.tried ? " A try to send it broke off, so it may have arrived already." : ""),
    !record.tried && make("button", { type: "button", class: "btn", onclick: () => act.withdraw(record.id) }, "Do not send it"));
}

// line makes the line of a record in the history.
export function line(record, { what, why, project: name }) {
  const said = what ? (record.kind === "alert" ? what.message : what.question) : `Cannot be read: ${why}`;
  return make("li", { class: "line" },
    make("p", { class: "head" },
      make("span", { class: "from" }, what?.from ?? "Unknown"),
      project(name),
      time(record.createdAt, when(record.createdAt))),
    make("p", {}, said),
    make("p", { class: "fate" },
      record.kind === "alert"
        ? what ? [icon(alertType(what)), `${alertWord(what)} alert`] : "Alert"
        : [icon(record.mine ? "check" : "info"), fate(record, chosen(record, what))],
      !record.encrypted && " (not encrypted)"));
}
