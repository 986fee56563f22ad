// Alerts, those of one agent and one kind in one card.
import { make } from "../../look/dom.js";
import { plural } from "../../look/words.js";
import { background, labels, project, unreadable, whole } from "./cards.js";
import { icon } from "./dom.js";
import { alertType, alertWord } from "./words.js";

// groups puts alerts together that one agent has sent of one kind; `read` has what they say. Their order stays: a group stands where
// its first one does.
export function groups(records, read) {
  const found = new Map();
  for (const record of records) {
    const what = read.get(record.id)?.what;
    const key = JSON.stringify([what?.projectId, what?.from, what && alertType(what)]);
    if (found.has(key)) found.get(key).push(record);
    else found.set(key, [record]);
  }
  return [...found].map(([key, list]) => ({ key, list }));
}

// card makes the card of a group. Its newest alert is shown, and each for which `shows` holds, as new ones are; the others are folded.
// saidBy returns what is shown of a record, and isNew whether it was not there when somebody last looked. act has dismiss(ids).
export function card(list, saidBy, { shows, isNew }, act) {
  const { what, project: name } = saidBy(list[0]);
  const type = what && alertType(what);
  const open = list.filter((record, n) => n === 0 || shows(record));
  const folded = list.filter((record) => !open.includes(record));
  const told = (record) => whole("article", record, () => alert(record, saidBy(record), isNew(record)));
  return make("section", { class: `card alerts ${type ?? ""}` },
    make("header", { class: "head" },
      make("h2", {}, type && icon(type), what ? alertWord(what) : "An alert"),
      what && make("span", { class: "from" }, what.from),
      project(name),
      list.length > 1 && make("span", { class: "left" }, plural(list.length, "alert"))),
    open.map(told),
    folded.length > 0 && make("details", { class: "fold" }, make("summary", { class: "btn quiet" }, `${folded.length} earlier`), folded.map(told)),
    make("button", { type: "button", class: "btn quiet", onclick: () => act.dismiss(list.map(({ id }) => id)) }, list.length > 1 ? `Dismiss all ${list.length}` : "Dismiss"));
}

function alert(record, { what, why }, isNew) {
  return make("article", { class: "told", id: record.id, tabindex: "-1" },
    what ? make("p", { class: "message" }, what.message) : unreadable(why),
    what && background(what),
    what?.sessionId && make("p", { class: "muted" }, `Session ${what.sessionId}`),
    labels(record, what, isNew && make("b", { class: "new" }, "New")));
}
