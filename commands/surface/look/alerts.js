// What agents tell the user: alike alerts in one card, of which those that were seen are folded.
import { make } from "./dom.js";
import { plural } from "./words.js";

const words = { error: "Error", warning: "Warning", success: "Success", info: "Information" };

// alertType and alertWord say of what kind an alert is, in the page's words and in a person's.
export const alertType = (alert) => (Object.hasOwn(words, alert.alertType) ? alert.alertType : "info");
export const alertWord = (alert) => words[alertType(alert)];

// groups puts alerts together that one agent has sent of one kind; whatOf returns what one says, if it can be read. Their order stays: a
// group stands where its first one does.
export function groups(alerts, whatOf) {
  const found = new Map();
  for (const alert of alerts) {
    const what = whatOf(alert);
    const key = JSON.stringify([what?.projectId, what?.from, what && alertType(what)]);
    if (found.has(key)) found.get(key).push(alert);
    else found.set(key, [alert]);
  }
  return [...found].map(([key, list]) => ({ key, list }));
}

// alertCard makes the card of a group, of which the newest says `what`. That one is shown, and each for which `shows` holds; the others are
// folded. heading is the tag of its title, from says who sent them, head are elements beside that; icon(type) and told(alert) make elements; dismiss takes the card away.
export function alertCard(list, { what, heading = "h2", from, head = [], shows, icon, told, dismiss }) {
  const type = what && alertType(what), n = list.length;
  const open = list.filter((alert, i) => i === 0 || shows(alert)), folded = list.filter((alert) => !open.includes(alert));
  return make("section", { class: `card alerts ${type ?? ""}` },
    make("header", { class: "head" },
      make(heading, { class: "kind" }, type && icon(type), what ? alertWord(what) : "An alert"),
      what && from,
      head,
      n > 1 && make("span", { class: "left" }, plural(n, "alert"))),
    open.map(told),
    folded.length > 0 && make("details", { class: "fold" }, make("summary", { class: "btn quiet" }, `${folded.length} earlier`), folded.map(told)),
    make("button", { type: "button", class: "btn quiet", onclick: dismiss }, n > 1 ? `Dismiss all ${n}` : "Dismiss"));
}
