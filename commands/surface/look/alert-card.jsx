// A card of similar alerts. Alerts that were seen are folded.
import { alertType, alertWord } from "./alerts.js";
import { plural } from "./words.js";

// AlertCard renders a group of alerts. `what` is the contents of the newest alert. AlertCard shows that alert and
// each alert for which `shows` returns true, and folds the others. `heading` is the tag of the title, `from` renders
// the sender, and `head` is shown beside the sender. Icon draws the type, and `told` renders an alert. `dismiss`
// removes the card.
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
