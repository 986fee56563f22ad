// Questions and alerts as cards. What cannot be read is a card too.
import { icon, make, time } from "./dom.js";
import { alertType, alertWord, chosen, fate, when } from "./words.js";

// whole makes what build makes, or tag in its place when that fails: one record that is odd keeps no other from view.
export function whole(tag, record, build) {
  try {
    return build();
  } catch (error) {
    return make(tag, { class: tag === "li" ? "line" : "card", id: tag !== "li" && record.id, tabindex: "-1" }, make("p", {}, `This cannot be shown: ${error.message}.`));
  }
}

// What is shown of a record: `what` is what it says, `why` is why it cannot be read.
const unreadable = (why) =>
  make("div", { class: "unreadable" },
    make("p", {}, "This cannot be read on this device."),
    make("p", { class: "muted" }, `It was sealed for other devices, or changed on its way: ${why}.`));

function head(record, what, ...marks) {
  const from = what ? what.from : record.kind === "alert" ? "An alert" : "A question";
  return make("header", { class: "head" },
    make("h2", { class: "from" }, from),
    time(record.createdAt, when(record.createdAt)),
    make("p", { class: "marks" }, marks,
      what?.priority === "high" && make("span", { class: "mark high" }, icon("high"), "High priority"),
      !record.encrypted && make("span", { class: "mark open" }, icon("open"), "Not encrypted")));
}

const background = (what) => what.context && make("p", { class: "context" }, what.context);

// question makes the card of a question; act has answer(id, given) and withdraw(id).
export function question(record, { what, why, sending }, act) {
  return make("article", { class: "card", id: record.id, tabindex: "-1", "aria-busy": sending && "true" },
    head(record, what),
    what ? make("p", { class: "asked", id: `${record.id}-asked` }, what.question) : unreadable(why),
    what && background(what),
    record.problem && make("p", { class: "notice bad" }, `The answer was not taken: ${record.problem}`),
    record.reopened && make("p", { class: "notice" }, "Your answer did not pass the asker's check. Please answer again."),
    sending
      ? make("p", { class: "fate" }, `Sending your answer: ${chosen({ answer: sending }, what)}`)
      : foot(record, what, act));
}

function foot(record, what, act) {
  if (record.status !== "pending") return make("p", { class: "fate" }, icon(record.mine ? "check" : "info"), fate(record, chosen(record, what)));
  if (record.queued) return waiting(record, what, act);
  const overdue = Date.parse(record.expiresAt) < Date.now();
  if (overdue) return make("p", { class: "fate" }, icon("info"), fate({ status: "expired" }));
  const until = make("p", { class: "muted until" }, "Open until ", time(record.expiresAt, when(record.expiresAt)));
  if (!what) return until;
  return make("div", {}, what.options?.length ? choices(record, what, act) : box(record, act), until);
}

function waiting(record, what, act) {
  return make("div", { class: "notice" },
    make("p", { class: "fate" }, icon("offline"), `Your answer: ${chosen(record, what)}`),
    make("p", {}, "Kept on this device. It will be sent when there is a connection.",
      record.tried ? " A try to send it broke off, so it may have arrived already." : ""),
    !record.tried && make("button", { type: "button", class: "plain", onclick: () => act.withdraw(record.id) }, "Do not send it"));
}

function choices(record, what, act) {
  return make("div", { class: "choices", role: "group", "aria-labelledby": `${record.id}-asked` },
    what.options.map((words, option) =>
      make("button", { type: "button", class: "choice", onclick: () => act.answer(record.id, { option }) }, words)));
}

function box(record, act) {
  const input = make("textarea", { id: `${record.id}-text`, rows: "3", maxlength: "2000", required: true });
  const send = (event) => {
    event.preventDefault();
    const text = input.value.trim();
    if (text) act.answer(record.id, { text });
    else input.focus();
  };
  // form-action is 'none': the form never goes anywhere, it only gives the button its meaning.
  return make("form", { onsubmit: send, novalidate: true },
    make("label", { for: `${record.id}-text` }, "Your answer"),
    input,
    make("button", { type: "submit", class: "primary" }, "Send answer"));
}

// alert makes the card of an alert.
export function alert(record, { what, why }) {
  const type = what && alertType(what);
  return make("article", { class: `card alert ${type ?? ""}`, id: record.id, tabindex: "-1" },
    head(record, what, what && make("span", { class: `mark ${type}` }, icon(type), alertWord(what))),
    what ? make("p", { class: "message" }, what.message) : unreadable(why),
    what && background(what),
    what?.sessionId && make("p", { class: "muted" }, `Session ${what.sessionId}`));
}

// line makes the line of a record in the history.
export function line(record, { what, why }) {
  const said = what ? (record.kind === "alert" ? what.message : what.question) : `Cannot be read: ${why}`;
  return make("li", { class: "line" },
    make("p", { class: "head" },
      make("span", { class: "from" }, what?.from ?? "Unknown"),
      time(record.createdAt, when(record.createdAt))),
    make("p", {}, said),
    make("p", { class: "fate" },
      record.kind === "alert"
        ? what ? [icon(alertType(what)), `${alertWord(what)} alert`] : "Alert"
        : [icon(record.mine ? "check" : "info"), fate(record, chosen(record, what))],
      !record.encrypted && " (not encrypted)"));
}
