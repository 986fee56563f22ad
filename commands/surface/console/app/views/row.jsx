// One row of the table of messages.

import { Component } from "preact";
import { Icon, State } from "../parts.jsx";
import { to } from "../route.js";
import { clock, now, span, utc } from "../time.js";
import { shortId } from "../words.js";

// MessageRow renders again only if one of its properties changes, because there are many rows and they move during
// scrolling.
export class MessageRow extends Component {
  shouldComponentUpdate(next) {
    return ["row", "index", "marked", "picked", "wanted"].some((name) => next[name] !== this.props[name]);
  }

  render({ row, index, marked, picked, wanted, onPick }) {
    const link = to(["messages", row.message_id]);
    return (
      <tr class={`is-${row.status}${marked ? " at" : ""}${picked ? " picked" : ""}`} aria-rowindex={index} aria-selected={marked} onClick={(e) => opens(e, row, onPick)}>
        <td class="c-st">{picked && <span class="unseen">marked </span>}<State name={row.status} /></td>
        <td class="c-time nowrap"><Sent at={row.created_at} /></td>
        <td class="c-pair"><a class="pair" href={link}><span class="agent">{row.sender}</span><Icon name="to" /><span class="agent" title={row.multicast_target && `sent to ${row.multicast_target}`}>{recipient(row)}</span></a></td>
        <td class="c-type cut"><span class="type" title={row.message_type}>{row.message_type}</span></td>
        <td class="c-says cut says">{says(row, wanted)}</td>
        <td class="c-thread cut muted" title={row.thread_id}>{row.thread_name || (row.thread_id && shortId(row.thread_id))}</td>
        <td class="c-try num">{tries(row)}</td>
        <td class="c-wait num"><Took row={row} /></td>
      </tr>
    );
  }
}

// recipient returns the recipient of a message, or for a post, its thread.
const recipient = (row) => (row.recipient.startsWith("thread:") ? row.thread_name || "a thread" : row.recipient);

// opens opens a message after a click anywhere in its row. A click with Ctrl, or on the state, marks the row instead.
function opens(event, row, onPick) {
  if (event.target.closest("a, button") || !getSelection().isCollapsed) return;
  if (event.ctrlKey || event.metaKey || event.target.closest(".c-st")) onPick(row);
  else event.currentTarget.querySelector("a").click();
}

function Sent({ at }) {
  utc.value;
  if (!at) return <span class="faint">unknown</span>;
  const text = clock(at);
  return <time dateTime={at} title={at}>{text}{/:\d\d:/.test(text) && <span class="faint">{at.slice(19, 23)}</span>}</time>;
}

const ended = new Set(["failed", "retry", "expired"]);

// says returns the beginning of a message's text, on one line. For a message that failed, it returns the last error.
function says(row, wanted) {
  if (ended.has(row.status) && row.error_message && !wanted) return oneLine(row.error_message);
  return oneLine(wanted ? row.says : sentence(row.says));
}

const oneLine = (text) => text.replace(/\s+/g, " ");

// sentence returns the main text of a JSON object, such as its title, if the object has one.
export function sentence(text) {
  if (!text.startsWith("{")) return text;
  const [, found] = text.match(/"(?:text|message|title|summary|subject|question|description)"\s*:\s*"((?:[^"\\]|\\.)+)/) ?? [];
  if (!found) return text;
  try {
    return JSON.parse(`"${found}"`);
  } catch {
    return found;
  }
}

const refused = (row) => /^unknown_(recipient|sender): /.test(row.error_message ?? "");

// tries returns how many attempts were made, and the maximum number of attempts.
export function tries(row) {
  const may = row.max_retries + 1, made = row.retry_count + 1;
  switch (row.status) {
    case "pending": return `0 of ${may}`;
    case "retry": return `${made} of ${may}`;
    case "failed": return refused(row) ? "" : `${made} of ${may}`;
    case "delivered": return <span class={made === 1 ? "faint one" : "faint"}>{made}</span>;
  }
  return row.error_message && row.status === "expired" ? `${made} of ${may}` : "";
}

// Took renders how long a message took, or how long it has waited.
function Took({ row }) {
  const since = (at) => span(now.value - Date.parse(at));
  switch (row.status) {
    case "delivered": return row.delivered_at && row.created_at ? <span class="muted">{span(Date.parse(row.delivered_at) - Date.parse(row.created_at))}</span> : null;
    case "failed": case "expired": return row.ended_at ? `dead ${since(row.ended_at)}` : null;
    case "pending": case "retry":
      if (row.held) return "held";
      if (row.lease_until) return "in progress";
      const ahead = Date.parse(row.next_attempt_at || 0) - now.value;
      if (ahead > 0) return `${row.status === "retry" ? "retry" : "due"} in ${span(ahead)}`;
      return row.status === "retry" ? "due" : row.created_at ? `waits ${since(row.created_at)}` : "waits";
  }
  return null;
}
