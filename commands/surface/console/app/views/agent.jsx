// The page of one agent.

import { useState } from "preact/hooks";
import { run } from "../api.js";
import { useCommand } from "../data.js";
import { useKeys } from "../keys.js";
import { mayAdminister, me } from "../me.js";
import { needed } from "../needs.js";
import { go, to } from "../route.js";
import { concerns, disabledSince, standing } from "../standing.js";
import { ago, clock, span } from "../time.js";
import { Age, Agent, Command, Confirm, Empty, Hint, Loaded, MessageLink, State, When } from "../parts.jsx";
import { count, list, plural, quoted } from "../words.js";
import { Context } from "./context.jsx";
import { ChangeAgent } from "./agent-change.jsx";
import { Flow } from "./flow.jsx";
import { Replay, givenUp, lettersAt } from "./operations/deadletters.jsx";
import { steps } from "./story.js";
import { Attempts } from "./waterfall.jsx";

export function AgentPage({ name }) {
  const of = useCommand("agent_show", { name, ...((mayAdminister() || me.value.agent === name) && { lately: true }) }, { matters: concerns(name), every: 15_000 });
  useKeys({ Escape: () => go("/agents") }, [["Escape", "all agents"]]);
  if (of.failure?.code === "not_found") {
    return <section class="lede"><h1>There is no agent {name}</h1><p><Hint text={of.failure.hint} /></p><p><a href="/agents">All agents</a></p></section>;
  }
  if (of.data === null) return <><h1>{name}</h1><Loaded of={of} /></>;
  return <Loaded of={of}>{(data) => <Page data={data} reload={of.reload} />}</Loaded>;
}

function Page({ data, reload }) {
  const { agent, backlog, lately } = data;
  const [secret, setSecret] = useState("");
  return (
    <>
      <Head agent={agent} backlog={backlog} reload={reload} onSecret={setSecret} />
      {secret && <div class="problem note" role="status"><p>Mailroom signs messages to the webhook with this secret. Give the secret to the receiver now, because Mailroom does not show it again:</p><p><code>{secret}</code></p></div>}
      <div class="three">
        <Transport agent={agent} />
        <Sessions agent={agent} backlog={backlog} />
        {!agent.built_in && <Tokens name={agent.name} />}
      </div>
      <Flow name={agent.name} backlog={backlog} />
      {!agent.built_in && <Context name={agent.name} />}
      {lately && agent.deliver !== "inbox" && <LastWords name={agent.name} newest={lately.newest} />}
      {lately && <Lately of={lately} name={agent.name} />}
    </>
  );
}

const excerpt = (text) => (text.length > 160 ? `${text.slice(0, 160)}…` : text);

// sentenceOf returns the state of an agent, as [shape, title, details]. The title is shown in the largest type.
function sentenceOf(agent, backlog) {
  const waiting = backlog.pending + backlog.retry, wait = waiting ? ` ${plural(waiting, "message waits", "messages wait")}.` : "";
  const { name, run, role } = agent;
  if (agent.disabled) {
    const { at, why } = disabledSince(agent.disabled);
    return ["disabled", `${name} is disabled`, `Mailroom has delivered nothing to it since ${clock(at)}. ${why ? `Reason: ${why}` : "No reason was given"}.${wait} When you enable the agent, it gets the waiting messages in order.`];
  }
  const { name: shape } = standing(agent);
  if (agent.state === "session_failed" || agent.state === "given_up") {
    const next = run.next_at ? ` Mailroom starts it again at ${clock(run.next_at)}.` : run.state === "given_up" ? " Mailroom starts it again when a new message arrives." : "";
    return ["failed", `The sessions of ${name} fail`, `${run.failures === 1 ? "The last run failed" : `${count(run.failures)} runs in a row failed, most recently`} at ${clock(run.since)}${run.outcome ? `: ${run.outcome}` : ""}.${next}${wait}`];
  }
  if (agent.state === "silent") return [shape, `${name} is silent`, `Mailroom has not heard from it since ${clock(agent.status_since)}, although it was working.${wait}`];
  if (agent.state === "retries") return [shape, `${plural(backlog.retry, "message waits", "messages wait")} for a retry`, `Delivery to ${name} failed. The next attempt is at ${clock(backlog.next_attempt_at)}.`];
  const says = role ? `${role[0].toUpperCase()}${role.slice(1).replace(/\.$/, "")}.` : "";
  if (agent.built_in) return ["idle", name, says];
  const does = { working: ["is working", "Working"], idle: ["is idle", "Idle"], stopped: ["has stopped", "Stopped"] }[agent.status];
  if (does && agent.state === agent.status) return [shape, `${name} ${does[0]}`, `${says} ${does[1]} since ${clock(agent.status_since)}.${wait}`];
  const heard = agent.heard_at ? `Mailroom last heard from it ${ago(agent.heard_at)}.` : "Mailroom has not heard from it yet.";
  return [shape, name, `${says} ${heard}${wait}`];
}

function Head({ agent, backlog, reload, onSecret }) {
  const [state, title, says] = sentenceOf(agent, backlog), [asks, setAsks] = useState(""), [replayed, setReplayed] = useState("");
  const may = mayAdminister();
  const letters = useCommand(may ? "dead_letters_groups" : null, { recipient: agent.name }, { matters: givenUp });
  const done = () => {
    setAsks("");
    reload();
    letters.reload();
    needed.value.reload(); // updates the numbers in the rail
  };
  const { total = 0, groups = [] } = letters.data ?? {}, again = { what: `the dead letters of ${agent.name}`, n: total, params: { recipient: agent.name }, groups };
  return (
    <div class="head">
      <div class="bar">
        <div class="line"><State name={state} word="" /><h1>{title}</h1></div>
        {!agent.built_in && (
          <div class="acts">
            {total > 0 && <button class={agent.disabled ? "btn" : "btn first"} type="button" onClick={() => setAsks("replay")}>Replay {count(total)}…</button>}
            {agent.disabled && <button class="btn first" type="button" disabled={!may} onClick={() => setAsks("enable")}>Enable…</button>}
            <button class="btn" type="button" disabled={!may} onClick={() => setAsks("change")}>Change…</button>
            {!agent.disabled && <button class="btn" type="button" disabled={!may} onClick={() => setAsks("disable")}>Disable…</button>}
            {!may && <span class="why-not">only an administrator can change agents</span>}
          </div>
        )}
      </div>
      <p class="say">{says}</p>
      {total > 0 && (
        <p><b class="bad">{plural(total, "message failed for good", "messages failed for good")}</b>. {groups[0].error && <>The {groups.length > 1 ? "most common" : "last"} error was “{excerpt(groups[0].error)}”. </>}<a class="link" href={lettersAt(agent.name)}>{total === 1 ? "See the message" : "See the messages"}</a></p>
      )}
      {replayed && <p role="status">{replayed}</p>}
      {agent.note && <p class="warn">{agent.note}</p>}
      <p class="muted people">
        {agent.groups?.length > 0 && <span>In {agent.groups.length === 1 ? "the group" : "the groups"} {list(agent.groups)}</span>}
        {agent.host && <span>On the host {agent.host}</span>}
        {agent.created_at && <span>Known since <When at={agent.created_at} />{agent.registered_by ? `, added by ${agent.registered_by}` : ""}</span>}
        <a class="link" href={to(["messages"], { agent: agent.name })}>Its messages</a>
      </p>
      {asks === "replay" && <Replay of={again} say={setReplayed} onDone={done} />}
      {asks === "disable" && <Disable agent={agent} onDone={done} />}
      {asks === "enable" && <Enable agent={agent} backlog={backlog} onDone={done} />}
      {asks === "change" && <ChangeAgent agent={agent} onDone={(name, secret) => (done(), secret && onSecret(secret))} />}
    </div>
  );
}

function Disable({ agent, onDone }) {
  const [why, setWhy] = useState(""), inbox = agent.deliver === "inbox";
  return (
    <Confirm title={`Disable ${agent.name}?`} word="Disable" danger act={() => run("agent_disable", why.trim() ? { name: agent.name, why: why.trim() } : { name: agent.name })} onDone={onDone}>
      <p>Until you enable the agent again, {agent.fallback && !inbox ? `Mailroom delivers its messages to ${agent.fallback}` : "its messages wait, and none is lost"}. Mailroom starts no session for it. The agent can still read messages itself.</p>
      <div class="form"><label class="line">Why<input class="field-text" aria-label="Why" value={why} maxLength={200} autocomplete="off" onInput={(e) => setWhy(e.target.value)} /><small class="muted">Mailroom shows this reason wherever it shows that {agent.name} is disabled.</small></label></div>
    </Confirm>
  );
}

const place = ({ deliver }) => (deliver === "inbox" ? "its inbox" : deliver);

const Enable = ({ agent, backlog, onDone }) => (
  <Confirm title={`Enable ${agent.name}?`} word="Enable" act={() => run("agent_enable", { name: agent.name })} onDone={onDone}>
    <p>{backlog.pending + backlog.retry ? `Mailroom delivers ${plural(backlog.pending + backlog.retry, "waiting message")} to ${place(agent)}, the oldest first.` : `Mailroom delivers new messages to ${place(agent)}.`}{agent.deliver !== "inbox" && " If the address responds with HTTP status 410, Mailroom disables the agent again after the first attempt."}</p>
  </Confirm>
);

// Fact renders a term and its value, or nothing if there is no value.
const Fact = ({ term, children }) => (children || children === 0 ? <><dt>{term}</dt><dd>{children}</dd></> : null);

function Transport({ agent }) {
  return (
    <section><h2>Transport</h2><dl class="facts">
      <Fact term="Address"><code>{agent.deliver}</code></Fact>
      <Fact term="Fallback">{agent.fallback ? <code>{agent.fallback}</code> : <span class="muted">none</span>}</Fact>
      <Fact term="Timeout">{agent.timeout_seconds ? `${agent.timeout_seconds} s` : ""}</Fact>
      <Fact term="Concurrency">{agent.concurrency > 1 ? plural(agent.concurrency, "command") : ""}</Fact>
      <Fact term="Batch">{agent.batch ? plural(agent.batch, "message") : ""}</Fact>
      <Fact term="Folder">{agent.folder && <span class="mono">{agent.folder}</span>}</Fact>
      <Fact term="Silence">{agent.silent_after_seconds ? `lost after ${span(1000 * agent.silent_after_seconds)}` : <span class="muted">no limit</span>}</Fact>
      <Fact term="Heard">{agent.heard_at ? <><Age at={agent.heard_at} /> ago</> : <span class="muted">never</span>}</Fact>
    </dl></section>
  );
}

const runStates = { __proto__: null, running: ["working", "running"], ended: ["delivered", "ended"], failed: ["failed", "failed"], given_up: ["failed", "not restarted"] };

function Sessions({ agent, backlog }) {
  const { run: last, start_command: command } = agent, hosted = backlog.host_sessions ?? [];
  const [state, word] = runStates[last?.state] ?? [];
  return (
    <section><h2>Sessions</h2><dl class="facts">
      <Fact term="Start command">{command ? <code>{command}</code> : <span class="muted">none</span>}</Fact>
      {last && <Fact term="Last run"><State name={state} word={word} /> <When at={last.since} /></Fact>}
      <Fact term="Result">{last?.outcome}</Fact>
      <Fact term="Runs">{last ? count(last.starts) : ""}</Fact>
      <Fact term="Next start">{last?.next_at && <When at={last.next_at} />}</Fact>
      {hosted.map((s) => <Fact key={s.session} term={s.program}><State name={s.state} /> seen <Age at={s.seen_at} /> ago<small class="mono">{s.session}</small></Fact>)}
    </dl>
      {!command && !agent.built_in && <Command text={`mailroom agent add ${quoted(agent.name)} --start COMMAND`} />}
    </section>
  );
}

const isValid = (token) => !token.revoked_at && (!token.expires_at || Date.parse(token.expires_at) > Date.now());

function Tokens({ name }) {
  const tokens = useCommand("agent_token", { name, list: true }, { matters: () => false });
  const [asks, setAsks] = useState(false);
  return (
    <section><h2>Tokens</h2>
      <Loaded of={tokens}>{({ tokens: all = [] }) => {
        const valid = all.filter(isValid), old = all.length - valid.length;
        return (
          <>
            {valid.length ? <dl class="facts">{valid.map((t) => <Fact key={t.id} term={<span class="mono">{t.id.slice(0, 8)}</span>}>{t.admin ? "administrator, " : ""}{t.expires_at ? <>expires <When at={t.expires_at} seconds={false} /></> : "never expires"}<small>issued <When at={t.created_at} seconds={false} /></small></Fact>)}</dl>
              : <p class="muted">The agent has no valid token, so no program can act as this agent over the network.</p>}
            {old > 0 && <p class="muted small">{plural(old, "other token")} expired or {old === 1 ? "was" : "were"} revoked.</p>}
            {valid.length > 0 && <p class="small"><button class="link" type="button" disabled={!mayAdminister()} onClick={() => setAsks(true)}>Revoke…</button></p>}
            {asks && (
              <Confirm title={`Revoke ${plural(valid.length, "token")} of ${name}?`} word="Revoke" danger act={() => run("agent_token", { name, revoke: true })} onDone={() => (setAsks(false), tokens.reload())}>
                <p>Mailroom immediately rejects requests with {valid.length === 1 ? "this token" : "these tokens"}. The agent’s messages stay. You cannot undo this. To issue a new token, run <code>mailroom agent token {name}</code>.</p>
              </Confirm>
            )}
          </>
        );
      }}</Loaded>
    </section>
  );
}

// LastWords renders the output of the agent's transport for the newest message that it attempted to deliver.
function LastWords({ name, newest }) {
  const tried = newest.find((m) => m.recipient === name && !["pending", "cancelled"].includes(m.status));
  const { data } = useCommand(tried && mayAdminister() ? "trace" : null, { message_id: tried?.message_id }, { matters: concerns(name) });
  const story = tried && data?.stories.find(({ message }) => message.message_id === tried.message_id);
  return story ? <Attempts list={steps(story, undefined, Date.now()).slice(-12)} recipient={name} /> : null;
}

function Lately({ of, name }) {
  if (!of.newest.length) return <Empty command={`mailroom send ${quoted(name)} Hello`}>The agent has not sent or received any messages recently.</Empty>;
  return (
    <>
      <div class="duo">
        <Peers title="Who writes to it" head="Sender" peers={of.senders} none="No agent has written to it recently." />
        <Peers title="Who it writes to" head="Recipient" peers={of.recipients} none="It has not written to any agent recently." />
      </div>
      <section>
        <div class="bar"><h2>Newest messages</h2><a class="link" href={to(["messages"], { agent: name })}>All</a></div>
        <table><tbody>{of.newest.map((m) => (
          <tr key={m.message_id}><td class="muted"><When at={m.created_at} /></td><td><State name={m.status} /></td><td><a href={to(["messages", m.message_id])}>{m.sender !== name ? <>from <b>{m.sender}</b></> : m.recipient.startsWith("thread:") ? "to a thread" : <>to <b>{m.recipient}</b></>}</a></td><td class="wide-c mono">{m.message_type}</td><td class="wide-c num"><MessageLink id={m.message_id} /></td></tr>
        ))}</tbody></table>
        <p class="muted small">These numbers cover the newest {plural(of.among, "message")} of all agents.</p>
      </section>
    </>
  );
}

function Peers({ title, head, peers, none }) {
  return (
    <section><div class="bar"><h2>{title}</h2></div>
      {peers.length ? (
        <table>
          <thead><tr><th>{head}</th><th class="num">Messages</th><th class="num">Failed</th><th class="num">Last</th></tr></thead>
          <tbody>{peers.map((p) => <tr key={p.agent}><td><Agent name={p.agent} /></td><td class="num">{count(p.messages)}</td><td class={p.failed ? "num bad" : "num faint"}>{count(p.failed)}</td><td class="num muted"><Age at={p.last_at} /></td></tr>)}</tbody>
        </table>
      ) : <p class="muted">{none}</p>}
    </section>
  );
}
