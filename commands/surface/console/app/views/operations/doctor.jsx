// Doctor: the problems found and how to solve them, and the tokens that allow access.

import { useEffect, useState } from "preact/hooks";
import { run } from "../../api.js";
import { useCommand } from "../../data.js";
import { Agent, Command, Confirm, Hint, Loaded, Problem, State, When } from "../../parts.jsx";
import { to } from "../../route.js";
import { me } from "../../me.js";
import { keyOf } from "../../needs.js";
import { now } from "../../time.js";
import { count, plural, sentence } from "../../words.js";
import { Ago, Said } from "./asked.jsx";

export function Doctor() {
  return <><Findings /><Tokens /></>;
}

// Findings runs the quick checks of doctor once, and all checks each time the person requests them.
function Findings() {
  const [state, setState] = useState({ busy: true }), [asking, setAsking] = useState(false);
  const look = async (tries, quick = false) => {
    setState((before) => ({ ...before, busy: true }));
    try {
      setState({ data: await run("doctor", { try: tries, quick }, { slow: !quick }), tried: tries, at: new Date().toISOString() });
    } catch (failure) {
      setState((before) => ({ data: before.data, at: before.at, failure }));
      if (tries) throw failure;
    }
  };
  useEffect(() => void look(false, true), []);
  const { data, failure, busy, tried, at } = state;
  const problems = data?.findings.filter((f) => f.level === "problem") ?? [], notes = data?.findings.filter((f) => f.level === "note") ?? [];
  const fine = data?.findings.filter((f) => f.level === "ok") ?? [];
  return (
    <>
      <section class="lede">
        <div class="bar level">
          <h1>{!data ? "Checking…" : problems.length ? `${sentence(problems.length, "problem")} found` : notes.length ? `No problems found, but ${sentence(notes.length, "note").toLowerCase()}` : "No problems found"}</h1>
          <div class="acts">
            <button class="btn" type="button" disabled={busy} onClick={() => look(false)}>Check everything</button>
            <button class="btn" type="button" disabled={busy} onClick={() => setAsking(true)}>Test each transport…</button>
          </div>
        </div>
        <p>{data ? <>Checked <Ago at={at} />. {tried ? "Mailroom sent each agent a test message." : "Mailroom sent no messages."}</> : "The checks take a moment."}</p>
      </section>
      <Problem failure={failure} retry={() => look(false)} />
      {data && (
        <>
          <ul class="rows">{[...problems, ...notes].map((f) => <Finding key={keyOf(f) + f.says} finding={f} />)}</ul>
          {fine.length > 0 && <details><summary>{sentence(fine.length, "check")} passed</summary><ul class="rows">{fine.map((f) => <Finding key={keyOf(f) + f.says} finding={f} />)}</ul></details>}
        </>
      )}
      {asking && (
        <Confirm title="Send each agent a test message?" word="Test them" act={() => look(true)} onDone={() => setAsking(false)}>
          <p>A test message is a real message of the type <code>transport_test</code> from <code>system</code>. Mailroom writes files, runs commands, and calls servers. In an inbox, the message is already marked as read.</p>
          <p>Mailroom makes one attempt of at most 30 seconds. If the attempt fails, Mailroom cancels the message and notifies nobody. If an address responds with HTTP status 410, Mailroom disables it, as for any message.</p>
          <Command text="mailroom doctor --try" />
        </Confirm>
      )}
    </>
  );
}

const levels = { problem: ["failed", "problem"], note: ["silent", "note"], ok: ["delivered", "fine"] };

function Finding({ finding: f }) {
  const [shape, word] = levels[f.level] ?? levels.note;
  return (
    <li class="row">
      <div class="what"><b>{f.code} {f.about}</b><span><Hint text={f.because ? `${f.says}: ${f.because}` : f.says} /></span>{f.do && <span class="do"><Hint text={f.do} /></span>}{f.code === "failed" && f.level !== "ok" && <a class="link" href={to(["operations", "dead-letters"])}>See them</a>}</div>
      <State name={shape} word={word} /><span />
    </li>
  );
}

// Tokens lists the tokens that allow access over the network, and revokes them.
function Tokens() {
  const tokens = useCommand("agent_token", { list: true }, { matters: () => false, every: 60_000 });
  const [asking, setAsking] = useState(null), [said, setSaid] = useState("");
  if (tokens.failure?.code === "permission_denied") return null;
  const over = (t) => t.revoked_at || (t.expires_at && Date.parse(t.expires_at) <= now.value);
  const isMine = (t) => t.id === me.value.token_id;
  return (
    <section>
      <div class="bar"><h2>Tokens and sessions</h2><span class="muted">access over the network</span></div>
      {said && <Said>{said}</Said>}
      <Loaded of={tokens}>
        {({ tokens: all }) => {
          const valid = all.filter((t) => !over(t)).reverse(), shown = valid.slice(0, 200);
          return (
            <>
              {valid.length === 0 && <><p class="muted">There are no tokens. To let an agent connect over HTTP, issue a token:</p><Command text="mailroom agent token NAME --expires 30d" /></>}
              <ul class="rows">{shown.map((t) => <Token key={t.id} token={t} mine={isMine(t)} ask={() => setAsking(t)} />)}</ul>
              {valid.length > shown.length && <p class="muted">The list shows the newest {count(shown.length)} of {count(valid.length)} tokens.</p>}
              {all.length > valid.length && <p class="muted">{plural(all.length - valid.length, "other token")} expired or {all.length - valid.length === 1 ? "was" : "were"} revoked.</p>}
            </>
          );
        }}
      </Loaded>
      {asking && (
        <Confirm title={asking.agent === "operator" ? "End this console session?" : `Revoke this token of ${asking.agent}?`} word="Revoke it" danger
          act={async () => {
            await run("agent_token", { revoke: true, id: asking.id });
            setSaid(`${asking.id} is revoked. Mailroom rejects requests with this token.`);
          }}
          onDone={(done) => {
            setAsking(null);
            if (done) tokens.reload();
          }}>
          <p>Mailroom rejects requests with this token from now on. You cannot undo this, but you can issue another token.</p>
          {isMine(asking) && <p class="warn">This page uses this session, so you are logged out. To start another session, run <code>mailroom console</code>.</p>}
        </Confirm>
      )}
    </section>
  );
}

function Token({ token: t, mine, ask }) {
  const session = t.agent === "operator";
  return (
    <li class="row">
      <div class="what">
        <b>{session ? "Console session" : <Agent name={t.agent} />}{mine ? ", this page" : ""}</b>
        <span><code>{t.id}</code> · {t.admin ? "administrator" : "can act only as the agent"} · since <When at={t.created_at} seconds={false} /></span>
      </div>
      <div class="value"><span>{t.expires_at ? <>expires <When at={t.expires_at} seconds={false} /></> : "never expires"}</span></div>
      <button class="btn" type="button" aria-label={`Revoke ${t.id}`} onClick={ask}>Revoke…</button>
    </li>
  );
}
