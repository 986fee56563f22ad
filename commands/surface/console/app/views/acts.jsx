// The actions for a message. An action that is not possible now stays visible, with the reason.

import { useState } from "preact/hooks";
import { run } from "../api.js";
import { useKeys } from "../keys.js";
import { anywhere } from "../me.js";
import { ByHand, Confirm, Icon, useCopy } from "../parts.jsx";
import { count, named, plural } from "../words.js";
import { Replay, alike } from "./operations/deadletters.jsx";

// possible returns for each action the reason why it is not possible now, or "" if it is possible.
function possible(story) {
  const m = story.message, live = m.status === "pending" || m.status === "retry", dead = m.status === "failed" || m.status === "expired";
  const gone = story.gone ? "the message is deleted" : m.archived_at ? "the message is archived" : "";
  const shown = story.receipts.some((r) => r.what === "shown");
  return {
    replay: gone || (dead ? "" : "the message has not failed"),
    cancel: gone || (live ? (m.lease_until ? "a delivery is in progress" : "") : dead ? "no further attempt is planned" : m.status === "cancelled" ? "the message is already canceled" : "too late to cancel: the message is delivered"),
    release: gone || (m.status !== "delivered" ? "the message is not delivered" : m.acknowledged_at ? "the message is acknowledged" : m.read_at || shown ? "" : "the message is unread"),
    acknowledge: gone || (m.recipient !== "operator" ? "only its recipient can acknowledge the message" : m.status !== "delivered" ? "the message is not delivered" : m.acknowledged_at ? "the message is already acknowledged" : ""),
  };
}

// Acts renders the buttons of the actions. group is the group of dead letters that failed for the same reason, if
// there are other such messages.
export function Acts({ story, group, reload }) {
  const m = story.message, why = possible(story), [asks, setAsks] = useState(null);
  const command = anywhere(`mailroom ${!why.replay ? "dead_letters replay" : !why.cancel ? "cancel" : "why"} ${named(m.message_id)}`);
  const [{ copied, refused }, copy] = useCopy(command);
  const done = (changed) => {
    setAsks(null);
    if (changed) reload();
  };
  const ask = (act) => why[act] === "" && setAsks(act);
  useKeys({ r: () => ask("replay"), x: () => ask("cancel"), a: () => ask("acknowledge"), c: copy });
  const offered = [["replay", "Replay", "again", "r"], ["cancel", "Cancel", "x", "x"], ["release", "Make unread", "unlock", ""], ["acknowledge", "Acknowledge", "check", "a"]];
  const can = offered.filter(([act]) => !why[act]), cannot = offered.filter(([act]) => why[act] && (act === "replay" || act === "cancel"));
  return (
    <div class="acts">
      {can.map(([act, word, icon, key]) => (
        <button class={act === "replay" || act === "acknowledge" ? "btn first" : "btn"} type="button" onClick={() => setAsks(act)}>{icon !== "x" && <Icon name={icon} />}{word}{key && <> <kbd>{key}</kbd></>}</button>
      ))}
      {group?.known && <button class="btn" type="button" onClick={() => setAsks("group")}>Replay all {count(group.messages)}…</button>}
      <button class="btn" type="button" title={command} onClick={copy}><Icon name={copied ? "check" : "copy"} />{copied ? "Copied" : "Copy as command"} <kbd>c</kbd></button>
      {refused && <ByHand text={command} refused={refused} />}
      {cannot.slice(-1).map(([act, word]) => <><button class="btn quiet" type="button" disabled>{word}</button><span class="why-not">{why[act]}</span></>)}
      {asks === "group" && group && <Replay of={{ what: plural(group.messages, "message"), n: group.messages, params: alike(m.recipient, m.error_message), groups: [group] }} say={() => {}} onDone={done} />}
      {asks && asks !== "group" && <Ask act={asks} m={m} onDone={done} />}
    </div>
  );
}

function Ask({ act, m, onDone }) {
  const id = { message_id: m.message_id };
  switch (act) {
    case "replay": return (
      <Confirm title="Replay this message?" word="Replay" act={() => run("dead_letters_replay", id)} onDone={onDone}>
        <p>The message becomes pending again and gets {plural(m.max_retries + 1, "attempt")}, like a new message. Mailroom delivers it to {m.recipient} as soon as the transport accepts it. The trace keeps the earlier attempts.</p>
      </Confirm>
    );
    case "cancel": return (
      <Confirm title="Cancel this message?" word="Cancel the message" danger act={() => run("cancel", id)} onDone={onDone}>
        <p>Mailroom does not deliver the message, and {m.recipient} never sees it. You cannot undo this, but {m.sender} can send the message again.</p>
      </Confirm>
    );
    case "release": return (
      <Confirm title="Make this message unread?" word="Make unread" act={() => run("release", id)} onDone={onDone}>
        <p>{m.recipient} gets the message again when it next reads its inbox. If {m.recipient} has already started to act on the message, the agent might act on it twice.</p>
      </Confirm>
    );
  }
  return (
    <Confirm title="Acknowledge this message?" word="Acknowledge" act={() => run("acknowledge", id)} onDone={onDone}>
      <p>{m.sender} sees that you have handled the message. The message also counts as read.</p>
    </Confirm>
  );
}
