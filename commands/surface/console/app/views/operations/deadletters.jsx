// Dead letters: the messages that the router gave up, grouped by recipient or by error, and their replay.

import { useState } from "preact/hooks";
import { run } from "../../api.js";
import { useCommand } from "../../data.js";
import { route, setQuery, to } from "../../route.js";
import { ago } from "../../time.js";
import { count, list, plural, quoted, sentence } from "../../words.js";
import { Agent, Confirm, Empty, Icon, Loaded, MessageLink, Pair, State, When } from "../../parts.jsx";
import { Ago, Said, clip } from "./asked.jsx";

// givenUp reports whether an event adds or removes a dead letter.
export const givenUp = ({ event }) => ["failed", "expired", "replayed", "deleted", "cancelled"].includes(event);

const mostReplayed = 100_000; // messages that one replay can contain
const longest = 2000; // characters of an error that are compared

// alike returns the parameters that select the dead letters of one recipient with the same error, or all its dead
// letters if no error is given.
export const alike = (recipient, error) => ({ recipient, ...(error && { error: [...error].slice(0, longest).join("") }) });

// lettersAt returns the address of the dead letters of one recipient, with one error, or both.
export function lettersAt(recipient, error) {
  const selected = alike(recipient, error);
  return to(["operations", "dead-letters"], { to: selected.recipient, error: selected.error });
}

export function DeadLetters() {
  const { to: recipient, error } = route.value.query;
  return <Selected key={`${recipient} ${error}`} selected={recipient || error ? alike(recipient, error) : null} />;
}

function Selected({ selected }) {
  const groups = useCommand("dead_letters_groups", selected ?? {}, { matters: givenUp });
  const [asking, setAsking] = useState(null); // the dead letters to replay: {what, n, params, groups}
  const [said, setSaid] = useState("");
  const done = (replayed) => {
    setAsking(null);
    if (replayed) groups.reload();
  };
  return (
    <>
      <Loaded of={groups}>{(data) => <Groups data={data} selected={selected} said={said} ask={setAsking} />}</Loaded>
      {asking && <Replay of={asking} say={setSaid} onDone={done} />}
    </>
  );
}

const All = () => <a class="link" href="/operations/dead-letters">All dead letters</a>;

function Groups({ data, selected, said, ask }) {
  const by = route.value.query.by === "error" ? "error" : "recipient";
  const { total, counted, cut, groups, more } = data;
  if (!total) {
    return (
      <>
        <section class="lede">
          <h1>{selected ? "None of these dead letters is left" : "There are no dead letters"}</h1>
          <p>{selected ? <>They were replayed or deleted. <All /></> : "A message becomes a dead letter if every attempt fails, or if it expires."}</p>
        </section>
        {said && <Said>{said}</Said>}
        <Empty command="mailroom dead_letters list">In a terminal:</Empty>
      </>
    );
  }
  const sendable = groups.filter((g) => g.known);
  return (
    <>
      <section class="lede">
        <h1>{selected ? <>{sentence(total, "message")}{selected.recipient && <> to <bdi>{clip(selected.recipient, 80)}</bdi></>} failed{selected.error && total > 1 && " for the same reason"}</> : sentence(total, "dead letter")}</h1>
        <p>Remove the cause before you replay messages. A replayed message starts again at its first attempt. Mailroom keeps dead letters until <code>clear_old</code> deletes them.{selected && <> <All /></>}</p>
      </section>
      {said && <Said>{said}</Said>}
      {counted < total && <p class="muted">The page shows the newest {count(counted)} of {count(total)} dead letters.</p>}
      {cut && counted === total && <p class="muted">Mailroom searched only the newest dead letters, so there might be more like these.</p>}
      {more && <p class="muted">The page shows only the {count(groups.length)} largest groups. To see more groups, run <code>mailroom dead_letters groups --limit 1000</code>.</p>}
      {groups.length > 1 && <div class="bar level">
        <div class="acts" role="group" aria-label="Grouped by">
          {["recipient", "error"].map((name) => <button class="btn" type="button" aria-pressed={by === name} onClick={() => setQuery({ by: name === "error" ? name : "" })}>By {name}</button>)}
        </div>
        {sendable.length > 0 && (
          <button class="btn" type="button" onClick={() => ask({ what: selected ? "these dead letters" : "all dead letters", n: total, params: selected ?? {}, groups })}><Icon name="again" />Replay all…</button>
        )}
      </div>}
      {bundles(groups, by).map((bundle) => <Bundle key={bundle.key} by={by} bundle={bundle} ask={ask} only={selected && groups.length === 1} />)}
    </>
  );
}

// bundles combines the groups that have the same recipient, or the same kind of error.
function bundles(groups, by) {
  const made = new Map();
  for (const g of groups) {
    const key = by === "error" ? g.kind : g.recipient;
    const bundle = made.get(key) ?? { key, groups: [], n: 0, since: g.since };
    bundle.groups.push(g);
    bundle.n += g.messages;
    if (g.since < bundle.since) bundle.since = g.since;
    made.set(key, bundle);
  }
  return [...made.values()].sort((a, b) => b.n - a.n);
}

function Bundle({ by, bundle, ask, only }) {
  const { groups, n, since } = bundle, first = groups[0];
  const selects = by === "error" ? { error: first.error } : { recipient: first.recipient };
  const what = by === "error" ? "the messages with this error" : `the dead letters of ${first.recipient}`;
  return (
    <section>
      <div class="bar level">
        <h2>{by === "error" ? <bdi class="reason">{clip(first.error || "No error was recorded", 200)}</bdi> : <bdi><Agent name={first.recipient} /></bdi>}</h2>
        <div class="acts">
          <span class="muted">{plural(n, "message")}, since <When at={since} seconds={false} /></span>
          {groups.length > 1 && groups.some((g) => g.known) && (by !== "error" || first.error) && (
            <button class="btn" type="button" onClick={() => ask({ what, n, params: selects, groups })}><Icon name="again" />Replay {count(n)}…</button>
          )}
        </div>
      </div>
      <ul class="rows">{groups.map((g) => <Group key={g.recipient + g.kind} by={by} group={g} ask={ask} only={only} />)}</ul>
    </section>
  );
}

// Group renders a group as a row. If the group is the only one selected, its messages are open at first.
function Group({ by, group: g, ask, only }) {
  const [open, setOpen] = useState(only);
  const params = { recipient: g.recipient, error: g.error };
  // Dead letters without an error cannot be distinguished from other dead letters of the same recipient.
  const together = g.known && g.error !== "";
  return (
    <li class="row">
      <div class="what">
        {by === "error" ? <b><bdi><Agent name={g.recipient} /></bdi></b> : <bdi class="reason">{clip(g.error || "No error was recorded")}</bdi>}
        <span>from <bdi>{list(g.senders)}</bdi> · last <Ago at={g.latest} />{g.expired ? ` · ${count(g.expired)} expired` : ""}</span>
        {!g.known && <span class="warn">There is no agent named <bdi>{g.recipient}</bdi>, so you cannot replay these messages. First run <code>mailroom agent add {quoted(g.recipient)}</code>.</span>}
        {g.known && !g.error && <span class="warn">No error was recorded, so you can replay these messages only one by one, or together with all dead letters of {g.recipient}.</span>}
        <p class="acts">
          <button class="link" type="button" aria-expanded={open} onClick={() => setOpen(!open)}>{open ? "Hide" : g.messages === 1 ? "Show the message" : `Show all ${count(g.messages)}`}</button>
        </p>
        {open && <Letters params={params} ask={ask} group={g} />}
      </div>
      <State name={g.expired === g.messages ? "expired" : "failed"} word={count(g.messages)} title={plural(g.messages, "message")} />
      <button class={only ? "btn first" : "btn"} type="button" disabled={!together} onClick={() => ask({ what: plural(g.messages, "message"), n: g.messages, params, groups: [g] })}><Icon name="again" />Replay {count(g.messages)}…</button>
    </li>
  );
}

const most = 50; // messages shown of a group

// Letters renders the newest messages of a group.
function Letters({ params, group, ask }) {
  const letters = useCommand("dead_letters_list", { ...params, limit: most }, { matters: givenUp });
  return (
    <Loaded of={letters}>
      {({ dead_letters, total }) => (
        <>
          <ul class="letters">
            {dead_letters.filter((m) => params.error || !m.error_message).map((m) => (
              <li key={m.message_id}>
                <MessageLink id={m.message_id} /><Pair from={m.sender} to={m.recipient} /><span class="type">{m.message_type}</span><When at={m.ended_at} />
                <button class="link" type="button" disabled={!group.known} onClick={() => ask({ what: "1 message", n: 1, one: m.message_id, groups: [group] })}>Replay…</button>
              </li>
            ))}
          </ul>
          {total > dead_letters.length && <p class="muted">The list shows the newest {count(dead_letters.length)} of {count(total)} messages.</p>}
        </>
      )}
    </Loaded>
  );
}

// Replay renders a dialog that explains the effect of a replay. After the replay, it reports the result with `say`.
export function Replay({ of, say, onDone }) {
  const names = [...new Set(of.groups.filter((g) => g.known).map((g) => g.recipient))];
  const unknown = of.groups.filter((g) => !g.known).reduce((n, g) => n + g.messages, 0);
  const latest = of.groups.reduce((last, g) => (g.latest > last ? g.latest : last), "");
  const n = of.n - unknown;
  const act = async () => {
    const params = of.one ? { message_id: of.one } : { all: true, limit: mostReplayed, ...of.params };
    const { replayed, skipped } = await run("dead_letters_replay", params, { slow: true });
    const again = `${plural(replayed.length, "message")} replayed${skipped ? `. ${count(skipped)} skipped, because the recipient or the sender is unknown` : ""}.`;
    say(<span>{again}{names.length === 1 && <> <a class="link" href={to(["messages"], { to: names[0] })}>See the messages</a></>}</span>);
  };
  return (
    <Confirm title={`Replay ${of.what}?`} word={`Replay ${count(n)}`} act={act} onDone={onDone}>
      <p>This sends {plural(n, "message")} to {names.length > 4 ? plural(names.length, "agent") : <bdi>{list(names)}</bdi>} again. The last failure was {ago(latest)}. If the cause is still there, {n === 1 ? "the message fails" : "the messages fail"} again, and Mailroom notifies the {n === 1 ? "sender" : "senders"} again.</p>
      {unknown > 0 && <p>{plural(unknown, "message")} to unknown names stay unchanged.</p>}
    </Confirm>
  );
}
