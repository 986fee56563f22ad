// The page of a message: where the message is and why, what to do, what happened to it, and its contents.

import { useCommand } from "../data.js";
import { useKeys } from "../keys.js";
import { go, to } from "../route.js";
import { disabledSince } from "../standing.js";
import { ago, clock, now } from "../time.js";
import { count, named, plural, shortId } from "../words.js";
import { Agent, Command, Hint, Loaded, MessageLink, Shape, State, When } from "../parts.jsx";
import { Acts } from "./acts.jsx";
import { asked, become, isSignal, outcome, useQuestion } from "./asked.js";
import { alike, givenUp, lettersAt } from "./operations/deadletters.jsx";
import { Payload } from "./payload.jsx";
import { told, useReport } from "./report.js";
import { sentence } from "./row.jsx";
import { steps } from "./story.js";
import { Attempts, Spent, Waterfall } from "./waterfall.jsx";

export function Message({ id }) {
  // The messages of a send to a group have IDs of their own.
  const matters = ({ data }) => data.message_id === id || trace.data?.stories.some(({ message }) => message.message_id === data.message_id);
  const trace = useCommand("trace", { message_id: id }, { matters }), why = useCommand("why", { message_id: id }, { matters });
  useKeys({ Escape: () => (history.length > 1 ? history.back() : go("/messages")) }, keys);
  if (trace.failure?.code === "not_found") return <Missing id={id} />;
  const reload = () => (trace.reload(), why.reload());
  return (
    <Loaded of={trace}>
      {({ stories }) => (stories[0].message.message_id === id && (stories.length === 1 || isSignal(id))
        ? <One story={stories[0]} why={why.data?.reasons?.find((r) => r.message_id === id)} reload={reload} />
        : <Several id={id} stories={stories} />)}
    </Loaded>
  );
}

const keys = [["r", "replay"], ["x", "cancel"], ["a", "acknowledge"], ["c", "copy as command"], ["Esc", "back"]];

const Missing = ({ id }) => (
  <section class="lede">
    <h1>Message not found</h1>
    <p>No message has the ID <code>{id}</code>. The message might be in another database, or retention might have deleted the message and its trace.</p>
    <p><a href="/messages">All messages</a></p>
  </section>
);

function One({ story, why, reload }) {
  const m = story.message;
  const moves = ["pending", "retry", "failed", "expired", "delivered"].includes(m.status);
  const group = useGroup(m);
  const question = useQuestion(story, why), until = moves ? now.value : Date.parse(story.events.at(-1)?.at ?? m.created_at);
  const answer = question?.story.message.status, stands = answer ? { answered: "delivered", pending: "question" }[answer] ?? answer : m.status;
  const own = question?.story === story ? [] : steps(story, why, until);
  const report = useReport(story), answered = question ? outcome(question.story, question.names) : "";
  const list = [...own, ...(question ? asked(question.story, question.names, now.value).filter((step) => !own.length || step.kind !== "sent") : []), ...told(report)]
    .sort((a, b) => a.from - b.from || a.to - b.to);
  return (
    <>
      <section class="head">
        <p class="muted"><Agent name={m.sender} /> to <Agent name={m.recipient} />{m.multicast_target && (inThread(m) ? <>, mentioned in <a class="link" href={to(["threads", m.thread_id])}>a thread</a></> : <>, sent to <b>{m.multicast_target}</b></>)} · <span class="type">{m.message_type}</span> · {m.created_at ? <>sent <When at={m.created_at} />, {ago(m.created_at)}</> : "the time of sending is unknown"}</p>
        <div class="line"><span class={`state ${stands}`}><Shape name={stands} /></span><h1>{question ? become(question.story) : title(story)}</h1></div>
        <p class="say">{why ? <Hint text={answered || local(say(why, m))} /> : " "}</p>
        <dl><dt>What helps</dt><dd>
          {why ? <Hint text={local((!answered && why.fix) || "No action needed.")} /> : " "}
          {group && <>{/[.!?]$/.test(why?.fix ?? ".") ? "" : "."} {plural(group.messages - 1, "more message", "more messages")} to {m.recipient} failed for the same reason. <a class="link" href={lettersAt(m.recipient, m.error_message)}>See all {count(group.messages)}</a></>}
        </dd></dl>
        <Acts story={story} group={group} reload={reload} />
      </section>
      <div class="cols">
        <div>
          <Spent list={list} message={m} />
          <Waterfall list={list} />
          <Attempts list={list} recipient={m.recipient} />
          {m.summary && <section><div class="bar"><h2>Summary</h2></div><p class="texts" dir="auto">{m.summary}</p></section>}
          {m.context && <section><div class="bar"><h2>Context</h2></div><p class="texts" dir="auto">{m.context}</p></section>}
          {story.gone ? <section><h2>Payload</h2><p class="muted">Retention deleted the payload. The trace is still available.</p></section> : <Payload value={m.payload} />}
          <section><div class="bar"><h2>In a terminal</h2></div><Command text={`mailroom trace ${named(m.message_id)}`} /></section>
        </div>
        <Side story={story} why={why} />
      </div>
    </>
  );
}

// useGroup returns the group of dead letters to which a message belongs, if the group has other messages.
function useGroup({ status, recipient, error_message: error }) {
  const dead = (status === "failed" || status === "expired") && error;
  const { data } = useCommand(dead ? "dead_letters_groups" : null, { ...alike(recipient, error), limit: 1 }, { matters: givenUp });
  return dead && data?.groups[0]?.messages > 1 ? data.groups[0] : null;
}

// local converts the times in a text of the engine into local notation.
const local = (text) => text.replace(/\d{4}-\d\d-\d\dT[\d:]{8}\.\d{3}Z/g, (at) => clock(at));

const words = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
const ordinals = ["", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"];

// title returns the state of a message in a few words.
function title({ message: m, events, gone }) {
  if (gone) return "Deleted by retention";
  const tries = events.filter((e) => e.event === "attempt_failed").length;
  const many = `${words[tries] ?? tries} attempt${tries === 1 ? "" : "s"}`;
  switch (m.status) {
    case "failed": return tries ? `Failed after ${many}` : "Rejected when it was sent";
    case "expired": return m.delivered_at ? "Expired without being read" : tries ? `Expired after ${many}` : "Expired before delivery";
    case "cancelled": return "Canceled before delivery";
    case "retry": return `Failed ${tries === 1 ? "once" : tries === 2 ? "twice" : `${words[tries] ?? tries} times`}, waiting for a retry`;
    case "pending": return m.held ? `Held until an agent named ${m.recipient} is added` : m.lease_until ? "Delivery in progress" : m.not_before && Date.parse(m.not_before) > now.value ? `Waiting until ${clock(m.not_before)}` : "Waiting for delivery";
  }
  const how = tries ? `Delivered on the ${ordinals[tries + 1] ?? `${tries + 1}th`} attempt` : "Delivered";
  if (m.recipient.startsWith("thread:")) return "Posted in a thread";
  return m.acknowledged_at ? `${how} and acknowledged` : m.read_at ? `${how} and read` : how;
}

// say returns where a message is and why, in the words of `mailroom why`.
function say(why, m) {
  const error = why.last_error && !why.rule.includes(why.last_error) ? ` Last error: ${why.last_error.replace(/\s+/g, " ").replaceAll("`", "'")}.` : "";
  return `The message ${why.gone ? "was" : "is"} ${why.where}. Details: ${why.rule}.${error}${why.overdue ? " The message is overdue." : ""}${m.archived_at ? " The message is archived." : ""}`.replace(/\.\.( |$)/, ".$1");
}

function Side({ story, why }) {
  const m = story.message, anew = story.events.slice(story.events.findLastIndex((e) => e.event === "replayed") + 1), tried = anew.filter((e) => e.event === "attempt_failed").length + (m.delivered_at ? 1 : 0);
  const fact = (name, value) => (value || value === 0 ? <><dt>{name}</dt><dd>{value}</dd></> : null);
  return (
    <aside class="side" aria-label="Facts">
      <Receipts story={story} />
      {!m.recipient.includes(":") && <Way message={m} />}
      <section><h3>Message</h3>
        <dl class="facts">
          {fact("ID", <code title={m.message_id}>{shortId(m.message_id)}</code>)}
          {fact("Priority", m.priority || 0)}
          {fact("Attempts", ["delivered", "cancelled"].includes(m.status) ? tried : `${tried} of ${m.max_retries + 1}`)}
          {fact("Next attempt", m.next_attempt_at && ["pending", "retry"].includes(m.status) && <When at={m.next_attempt_at} />)}
          {fact("Not before", m.not_before && <When at={m.not_before} />)}
          {fact("Expires", m.expires_at && !m.read_at && <When at={m.expires_at} />)}
          {fact("Action", m.action)}
          {fact("Session", m.session_id)}
          {fact("Sent to", m.multicast_target && <a class="link" href={to(["messages", m.multicast_id])}>{inThread(m) ? "all mentioned agents" : m.multicast_target}</a>)}
          {fact("Reply to", m.reply_to && <MessageLink id={m.reply_to} />)}
          {fact("Hops", m.hops || "")}
          {fact("Idempotency key", m.idempotency_key && <code>{m.idempotency_key}</code>)}
          {fact("Leased to", m.lease_owner && `${m.lease_owner}, until ${clock(m.lease_until)}`)}
          {fact("Crashes", m.crashes || "")}
          {fact("Trace", m.trace_id && <code title={m.trace_id}>{shortId(m.trace_id)}</code>)}
        </dl>
      </section>
      {m.thread_id && <Thread id={m.thread_id} self={m} />}
    </aside>
  );
}

// Way renders how the recipient's messages are delivered, and how many other messages wait.
function Way({ message: { recipient, status } }) {
  const { data } = useCommand("agent_show", { name: recipient }, { matters: (e) => e.data.recipient === recipient });
  if (!data) return null;
  const { agent, backlog } = data, others = backlog.pending + backlog.retry - (status === "pending" || status === "retry");
  return (
    <section><h3>Delivery</h3>
      <dl class="facts">
        <dt>Transport</dt><dd><code>{agent.deliver}</code></dd>
        {agent.disabled && <><dt>Disabled</dt><dd class="bad"><When at={disabledSince(agent.disabled).at} />: {disabledSince(agent.disabled).why}</dd></>}
        {agent.timeout_seconds > 0 && <><dt>Timeout</dt><dd>{agent.timeout_seconds} s</dd></>}
        <dt>Fallback</dt><dd>{agent.fallback ? <code>{agent.fallback}</code> : <span class="muted">none</span>}</dd>
        {others > 0 && <><dt>Also waiting</dt><dd><a class="link" href={to(["messages"], { to: recipient, status: "live" })}>{plural(others, "other message")}</a></dd></>}
      </dl>
    </section>
  );
}

function Receipts({ story }) {
  const m = story.message, has = new Set(story.receipts.map((r) => r.what));
  const answer = story.receipts.find((r) => r.what === "answered")?.evidence.replace(/^reply_to of /, "");
  const missing = ["failed", "expired", "cancelled"].includes(m.status) ? [] : (m.recipient === "user" ? ["delivered"] : ["delivered", "read", "acknowledged"]).filter((what) => !has.has(what));
  return (
    <section><h3>Receipts</h3>
      <ul class="receipts">
        {story.receipts.map((r) => (
          <li title={r.evidence}><State name={r.what === "created" ? "pending" : "delivered"} shape={r.what === "created" ? "sent" : r.what === "shown" ? "pending" : "delivered"} word="" />
            {r.what === "answered" && answer ? <a class="link" href={to(["messages", answer])}>answered</a> : <span>{r.what === "created" ? "sent" : r.what}</span>}<b><When at={r.at} /></b></li>
        ))}
        {["failed", "expired", "cancelled"].includes(m.status) && <li><State name={m.status} word="" /><span>{m.status}</span><b><When at={m.ended_at} /></b></li>}
        {missing.map((what) => <li><State name="idle" word="" /><span>{what}</span><span class="faint">not yet</span></li>)}
      </ul>
    </section>
  );
}

// inThread reports whether a message was created because a post in a thread mentions its recipient.
const inThread = (m) => m.multicast_target?.startsWith("thread:");

// Thread renders the posts around a message in its thread. Each agent that a post mentions has a message of its own,
// written together with the post.
function Thread({ id, self }) {
  const { data } = useCommand("messages_list", { thread_id: id, archived: true, limit: 30 }, { matters: (e) => e.data.thread_id === id });
  if (!data) return null;
  const name = data.messages.find((row) => row.thread_name)?.thread_name ?? shortId(id);
  return (
    <section><h3>In the thread <a class="link" href={to(["threads", id])}>{name}</a></h3>
      <ul class="receipts">
        {data.messages.filter((row) => row.recipient.startsWith("thread:")).slice(0, 8).reverse().map((row) => (
          <li><State name={row.status} word="" />
            {row.sender === self.sender && row.created_at === self.created_at ? <b>this message</b> : <a class="cut" href={to(["messages", row.message_id])}>{row.sender}: {sentence(row.says)}</a>}
            <span class="muted"><When at={row.created_at} seconds={false} /></span></li>
        ))}
      </ul>
    </section>
  );
}

// Several renders a send to a group, or a post and its mentions. There is one message for each recipient.
function Several({ id, stories }) {
  const numbers = { __proto__: null };
  for (const { message } of stories) numbers[message.status] = (numbers[message.status] ?? 0) + 1;
  const [first] = stories;
  return (
    <>
      <section class="lede">
        <h1>Sent to {plural(stories.length, "recipient")}: {Object.entries(numbers).map(([status, n]) => `${n} ${status}`).join(", ")}</h1>
        <p>{first.message.sender} sent the message to <b>{first.message.multicast_target || "several recipients"}</b>. Each recipient has its own message.</p>
      </section>
      <section>
        <table>
          <thead><tr><th>Status</th><th>To</th><th>Message</th><th>Last error</th></tr></thead>
          <tbody>
            {stories.slice(0, 500).map(({ message: m }) => (
              <tr><td><State name={m.status} /></td><td class="agent">{m.recipient}</td><td>{m.message_id === id ? <code>{shortId(id)}</code> : <MessageLink id={m.message_id} />}</td><td class="cut bad">{m.error_message}</td></tr>
            ))}
          </tbody>
        </table>
        {stories.length > 500 && <p class="muted">{plural(stories.length - 500, "more recipient is", "more recipients are")} not shown.</p>}
      </section>
      <Payload value={first.message.payload} />
    </>
  );
}
