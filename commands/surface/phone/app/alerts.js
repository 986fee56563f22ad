// Alerts, those of one agent and one kind in one card.
import { alertCard } from "../../look/alerts.js";
import { make } from "../../look/dom.js";
import { background, labels, project, unreadable, whole } from "./cards.js";
import { icon } from "./dom.js";

// card makes the card of a group. saidBy returns what is shown of a record, and isNew whether it was not there when somebody last looked;
// those for which `shows` holds are not folded. act has dismiss(ids).
export function card(list, saidBy, { shows, isNew }, act) {
  const { what, project: name } = saidBy(list[0]);
  return alertCard(list, {
    what, icon, shows, from: what && make("span", { class: "from" }, what.from), head: project(name) || [],
    told: (record) => whole("article", record, () => alert(record, saidBy(record), isNew(record))),
    dismiss: () => act.dismiss(list.map(({ id }) => id)),
  });
}

function alert(record, { what, why }, isNew) {
  return make("article", { class: "told", id: record.id, tabindex: "-1" },
    what ? make("p", { class: "message" }, what.message) : unreadable(why),
    what && background(what),
    what?.sessionId && make("p", { class: "muted" }, `Session ${what.sessionId}`),
    labels(record, what, isNew && make("b", { class: "new" }, "New")));
}
