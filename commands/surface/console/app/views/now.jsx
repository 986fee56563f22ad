// Now: the problems that need a person, the flow of messages, who writes to whom, and the agents.

import { useState } from "preact/hooks";
import { run } from "../api.js";
import { useCommand } from "../data.js";
import { route, to } from "../route.js";
import { isFirst, keyOf, needed, others } from "../needs.js";
import { count, list, plural, sentence } from "../words.js";
import { anywhere, mayAdminister, me } from "../me.js";
import { span } from "../time.js";
import { Age, ByHand, Command, Confirm, Hint, Icon, Loaded, Shape, When, useCopy } from "../parts.jsx";
import { Stamped } from "./stamped.jsx";
import { lettersAt } from "./operations/deadletters.jsx";
import { Plots, spans } from "./plots.jsx";
import { Members, Room } from "./room.jsx";

export function Now() {
  const of = needed.value;
  return <Loaded of={of}>{(data) => (isFirst(data) ? <Welcome data={data} /> : <Day data={data} />)}</Loaded>;
}

const mostShown = 12; // problems, before the person asks for all

function Day({ data }) {
  const chosen = Object.hasOwn(spans, route.value.query.span) ? route.value.query.span : "1h";
  const stats = useCommand("stats", { since: chosen, every: spans[chosen].every, waiting: true }, { matters: () => false, every: 15_000 });
  const room = useCommand("room", {}, { matters: () => false, every: 10_000 });
  const needs = data.findings.toSorted((a, b) => isRed(b) - isRed(a)), found = others(needs), n = needs.length + found.length;
  const [all, setAll] = useState(false), shown = all ? n : mostShown;
  return (
    <>
      <section class="lede">
        <h1>{n === 0 ? "Nothing needs your attention" : `${sentence(n, "thing")} ${n === 1 ? "needs" : "need"} your attention`}</h1>
        <p><Flow stats={stats.data} chosen={chosen} /></p>
      </section>
      {n > 0 && (
        <section class="close">
          <h2 class="unseen">Problems that need a person</h2>
          <ul class="needs">
            {needs.slice(0, shown).map((need, i) => <Need key={keyOf(need)} need={need} first={i === 0} />)}
            {found.slice(0, Math.max(0, shown - needs.length)).map((finding) => <Finding key={keyOf(finding)} finding={finding} first={needs.length === 0 && finding === found[0]} />)}
          </ul>
          {n > shown && <p class="more"><button class="btn quiet" type="button" onClick={() => setAll(true)}>Show the other {n - shown}</button></p>}
        </section>
      )}
      <section>
        <div class="bar">
          <h2>{spans[chosen].title}</h2>
          <Spans chosen={chosen} stats={stats.data} />
        </div>
        <Loaded of={stats}>{(traffic) => <Plots traffic={traffic} chosen={chosen} needs={data.findings} />}</Loaded>
      </section>
      <Loaded of={room}>{(there) => <div class="two"><Room there={there} /><Members there={there} /></div>}</Loaded>
    </>
  );
}

// Flow renders how many messages were delivered.
function Flow({ stats, chosen }) {
  if (!stats) return "…";
  const { delivered, delivered_after: took } = stats.total, within = spans[chosen].within;
  if (!delivered) return `No messages were delivered in ${within}.`;
  return `${plural(delivered, "message was", "messages were")} delivered in ${within}${took ? `, half of them within ${span(took.p50_ms)}` : ""}.`;
}

// Spans renders the periods that the plots can show.
function Spans({ chosen, stats }) {
  const query = route.value.query;
  return (
    <span class="muted">
      {stats && <>until <When at={stats.intervals.at(-1).at} seconds={false} />, {spans[chosen].steps} · </>}
      {Object.entries(spans).map(([name, { word }], i) => (
        <>{i > 0 && " · "}{name === chosen ? <b>{word}</b> : <a class="link" href={to([], { ...query, span: name === "1h" ? "" : name })}>{word}</a>}</>
      ))}
    </span>
  );
}

// kinds maps each kind of problem to how it is shown: its state and shape, its count, and the button that leads to
// the solution.
const kinds = {
  failed: { state: "failed", tag: (n) => `${n} failed`, word: (n) => (n.count === 1 ? "See it" : `See all ${count(n.count)}`), at: (n) => lettersAt(n.about, n.error) },
  overdue: { state: "overdue", tag: (n) => `${n} overdue`, word: (n) => (n.unknown ? "See them" : `Open ${n.about}`), at: (n) => (n.unknown ? to(["messages"], { to: n.about, status: "live" }) : to(["agents", n.about])) },
  unread: { state: "silent", tag: (n) => `${n} unread`, word: (n) => (n.about === "operator" ? "Read them" : `Open ${n.about}`), at: (n) => (n.about === "operator" ? to(["messages"], { to: n.about }) : to(["agents", n.about])) },
  disabled: { state: "disabled", tag: () => "Disabled", word: (n) => (n.do.includes(" agent enable ") ? "Enable" : "Set an address"), at: (n) => to(["agents", n.about]) },
  question: { state: "question", tag: (n) => (n === "1" ? "1 question" : `${n} questions`), word: () => "Answer", at: () => to(["questions"]) },
  user: { state: "overdue", shape: "question", tag: (n) => `${n} waiting`, at: () => to(["questions"]), does: true },
  phone: { state: "overdue", shape: "question", tag: () => "Phone", at: () => to(["questions"]), does: true },
  exchange: { state: "overdue", tag: (n) => `${n} messages`, does: true },
  hold: { state: "silent", tag: () => "Held", does: true },
  daemon: { state: "overdue", tag: () => "No daemon", does: true, copies: true },
  host: { state: "overdue", tag: () => "No daemon", does: true, copies: true },
  trust: { state: "overdue", shape: "doctor", tag: () => "Not trusted", does: true, copies: true },
  moved: { state: "failed", tag: () => "Moved", does: true },
};
const isRed = ({ code }) => ["failed", "disabled"].includes(kinds[code]?.state);

const other = { state: "overdue", shape: "doctor", tag: () => "Check", does: true };

function Need({ need, first }) {
  const kind = kinds[need.code] ?? other;
  if (need.code === "exchange" || need.code === "hold") return <Exchange need={need} kind={kind} first={first} />;
  const at = need.about || need.code === "failed" ? kind.at?.(need) : need.code === "overdue" ? to(["messages"], { status: "live" }) : null;
  return (
    <Row kind={kind} tag={kind.tag(count(need.count))} says={need.says} since={need.since} href={at ?? to(["operations", "doctor"])} word={at && need.about && kind.word ? kind.word(need) : "What to do"} first={first} does={need.do}>
      <Stamped text={need.because ?? ""} />{need.from && <> · {from(need)}</>}{kind.does && need.do && <> · <Hint text={need.do} /></>}
    </Row>
  );
}

// from returns who sent the waiting messages, or who else asks a question.
function from({ code, from: names }) {
  const shown = names.length > 4 ? [...names.slice(0, 3), `${names.length - 3} more`] : names;
  if (code === "question") return `${list(shown)} also ${names.length === 1 ? "asks a question" : "ask questions"}`;
  return `${names.length === 1 ? "all from" : "from"} ${list(shown)}`;
}

// Exchange renders a pair of agents that write to each other again and again, or whose messages are held.
function Exchange({ need, kind, first }) {
  const [asked, setAsked] = useState(null), [a, b] = need.from, held = need.code === "hold";
  const done = (changed) => {
    setAsked(null);
    if (changed) needed.value.reload();
  };
  const hold = {
    word: "Hold", title: `Hold the messages between ${a} and ${b}?`, params: { agent: a, other: b },
    means: "The messages wait for at most one hour, and none is lost. Mailroom notifies both agents. They still get messages from other agents.",
  };
  const letGo = {
    word: "Let them continue", title: `Let ${a} and ${b} continue?`, params: { agent: a, other: b, off: true },
    means: `${held ? "Mailroom delivers the waiting messages in order. " : ""}For one hour, this page does not report a loop between the two agents.`,
  };
  // The finding suggests a hold only if both agents have sessions.
  const holds = !held && need.do.includes(`mailroom hold ${a} ${b}\``), act = holds ? hold : letGo;
  return (
    <Row kind={kind} tag={kind.tag(count(need.count ?? 0))} says={need.says} since={need.since} first={first} does={need.do} act={mayAdminister() && (() => setAsked(act))} word={`${act.word}…`} href={to(["messages"], { from: a, to: b })}>
      {held && `${plural(need.count ?? 0, "message waits", "messages wait")} · `}
      {!held && <Stamped text={`${need.because} · `} />}
      {holds && mayAdminister() && <><button class="link" type="button" onClick={() => setAsked(letGo)}>Let them continue…</button> · </>}
      <Hint text={need.do} />
      {asked && <Confirm title={asked.title} word={asked.word} act={() => run("hold", asked.params)} onDone={done}><p>{asked.means}</p></Confirm>}
    </Row>
  );
}

// Finding renders a problem that doctor found. A long text is shown in the second line.
function Finding({ finding: { code, about, says, do: does }, first }) {
  const title = `${code[0].toUpperCase()}${code.slice(1)}${about ? ` ${about}` : ""}`, short = says.length < 70;
  return (
    <Row kind={{ state: "overdue", shape: "doctor" }} tag="Doctor" says={short ? `${title}: ${says}` : title} href={to(["operations", "doctor"])} word="What to do" first={first} does={does}>
      {!short && <Stamped text={says} />}{!short && does && " · "}<Hint text={does ?? ""} />
    </Row>
  );
}

// Row renders a problem that needs a person. act is the action of its button. Without act, the button is a link to
// href.
function Row({ kind, tag, says, since, href, word, first, does, act, children }) {
  const [, command] = (kind.copies && does?.match(/`(mailroom [^`]+)`/)) || [];
  return (
    <li>
      <span class={`state ${kind.state}`}><Shape name={kind.shape ?? kind.state} />{tag}</span>
      <p class={kind.does ? "what whole" : "what"}><b>{says}</b><span>{children}</span></p>
      <p class="since">{since && <><b><Age at={since} /></b>since <When at={since} seconds={false} /></>}</p>
      {act ? <button class={first ? "btn first" : "btn"} type="button" onClick={act}>{word}</button> : command ? <CopyButton text={command} first={first} /> : <a class={first ? "btn first" : "btn"} href={href} title={does?.replaceAll("`", "")}>{word}</a>}
    </li>
  );
}

// CopyButton copies the command that solves the problem, if the command must be run in a terminal.
function CopyButton({ text: command, first }) {
  const text = anywhere(command), [{ copied, refused }, copy] = useCopy(text);
  return refused ? <ByHand text={text} refused={refused} /> : <button class={first ? "btn first" : "btn"} type="button" title={text} onClick={copy}><Icon name={copied ? "check" : "copy"} />{copied ? "Copied" : "Copy command"}</button>;
}

// Welcome is shown until the first message is sent. It lists the commands to run, step by step.
function Welcome({ data }) {
  const step = data.agents < 2 ? 2 : 3;
  const is = (n) => (n < step ? "done" : n === step ? "next" : "later");
  return (
    <>
      <section class="lede">
        <h1>Mailroom is ready. {data.agents === 0 ? "There are no agents yet" : data.agents === 1 ? "There is one agent" : "There are no messages yet"}</h1>
        <p>Run these commands in your project’s folder. This page updates automatically.</p>
      </section>
      <ol class="steps close">
        <Step n={1} is="done" title="The database exists">
          <p class="muted"><code>{me.value.database}</code>{data.begun_at && <>, used since <When at={data.begun_at} seconds={false} /></>}</p>
        </Step>
        <Step n={2} is={is(2)} title="Connect two agents">
          <Command text="mailroom connect claude --as alice" />
          <Command text="mailroom connect codex --as bob" />
          <p class="muted">You can connect Gemini CLI and OpenCode in the same way. To add an agent without a model, run <code>mailroom agent add NAME</code>.</p>
          {step === 2 && <p class="wait-dot" role="status"><i />waiting for the {data.agents === 0 ? "first" : "second"} agent</p>}
        </Step>
        <Step n={3} is={is(3)} title="Send a message">
          <Command text={`mailroom send bob "what do you work on?" --as alice`} />
          {step === 3 && <p class="wait-dot" role="status"><i />waiting for the message</p>}
        </Step>
        <Step n={4} is={data.daemons > 0 ? "done" : "later"} title="Deliver in the background">
          {data.daemons > 0 ? <p class="muted">A daemon is running.</p> : <Command text="mailroom serve" />}
          <p class="muted">The daemon delivers messages, retries failed deliveries, and starts agents that have messages.</p>
        </Step>
      </ol>
      <p class="muted">To see an example first, run <code>mailroom demo</code>. It runs five agents in a separate database, with a failure and a replay.</p>
    </>
  );
}

const Step = ({ n, is, title, children }) => (
  <li class={is}><span class="n">{is === "done" ? <Icon name="check" /> : n}</span><div><h2>{title}</h2>{children}</div></li>
);
