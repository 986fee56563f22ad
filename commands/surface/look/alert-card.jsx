// Alike alerts in one card, of which those that were seen are folded.
import { alertType, alertWord } from "./alerts.js";
import { plural } from "./words.js";

// AlertCard shows a group of alerts, of which the newest says `what`. That one is shown, and each for which `shows`
// holds; the others are folded. `heading` is the tag of its title, `from` shows who sent them, and `head` what is
// beside that. Icon draws what a type is, and `told` shows an alert. `dismiss` takes the card away.
export function AlertCard({ list, what, heading: Heading = "h2", from, head, shows, Icon, told, dismiss }) {
  const type = what && alertType(what), n = list.length;
  const open = list.filter((alert, i) => i === 0 || shows(alert));
  const folded = list.filter((alert) => !open.includes(alert));
  return (
    <section class={`card alerts ${type ?? ""}`}>
      <header class="head">
        <Heading class="kind">{type && <Icon name={type} />}{what ? alertWord(what) : "An alert"}</Heading>
        {what && from}
        {head}
        {n > 1 && <span class="left">{plural(n, "alert")}</span>}
      </header>
      {open.map(told)}
      {folded.length > 0 && (
        <details class="fold"><summary class="btn quiet">{folded.length} earlier</summary>{folded.map(told)}</details>
      )}
      <button type="button" class="btn quiet" onClick={dismiss}>{n > 1 ? `Dismiss all ${n}` : "Dismiss"}</button>
    </section>
  );
}
