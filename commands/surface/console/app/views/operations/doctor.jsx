// Doctor: what is wrong and what to do about it; and the tokens by which somebody is let in.

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

// Findings asks the doctor once, and again when it is told to: then for every message, too.
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
          <h1>{!data ? "The doctor looks…" : problems.length ? sentence(problems.length, "thing is wrong", "things are wrong") : notes.length ? `Nothing is broken, but look at ${sentence(notes.length, "thing").toLowerCase()}` : "Nothing is wrong"}</h1>
          <div class="acts">
            <button class="btn" type="button" disabled={busy} onClick={() => look(false)}>Check everything</button>
            <button class="btn" type="button" disabled={busy} onClick={() => setAsking(true)}>Test each transport…</button>
          </div>
        </div>
        <p>{data ? <>Looked <Ago at={at} />{tried ? ", and sent each agent a test message" : "; nothing was sent"}.</> : "A moment."}</p>
      </section>
      <Problem failure={failure} retry={() => look(false)} />
      {data && (
        <>
          <ul class="rows">{[...problems, ...notes].map((f) => <Finding key={keyOf(f) + f.says} finding={f} />)}</ul>
          {fine.length > 0 && <details><summary>{sentence(fine.length, "check")} found nothing to do</summary><ul class="rows">{fine.map((f) => <Finding key={keyOf(f) + f.says} finding={f} />)}</ul></details>}
        </>
      )}
      {asking && (
        <Confirm title="Send each agent a test message?" word="Test them" act={() => look(true)} onDone={() => setAsking(false)}>
          <p>A test message is a real one, of the type <code>transport_test</code>, from <code>system</code>: a file appears, a command runs, a server is called; an inbox has it as read.</p>
          <p>It is tried once, for at most 30 seconds. If it fails it is cancelled, and nobody is told. An address that answers that it is gone (410) is disabled, as for any message.</p>
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

// Tokens lists who may come in over the network, and takes that back.
function Tokens() {
  const tokens = useCommand("agent_token", { list: true }, { matters: () => false, every: 60_000 });
  const [asking, setAsking] = useState(null), [said, setSaid] = useState("");
  if (tokens.failure?.code === "permission_denied") return null;
  const over = (t) => t.revoked_at || (t.expires_at && Date.parse(t.expires_at) <= now.value);
  const isMine = (t) => t.id === me.value.token_id;
  return (
    <section>
      <div class="bar"><h2>Tokens and sessions</h2><span class="muted">who may come in over the network</span></div>
      {said && <Said>{said}</Said>}
      <Loaded of={tokens}>
        {({ tokens: all }) => {
          const valid = all.filter((t) => !over(t)).reverse(), shown = valid.slice(0, 200);
          return (
            <>
              {valid.length === 0 && <><p class="muted">Nobody has a token. One lets an agent in over HTTP:</p><Command text="mailroom agent token NAME --expires 30d" /></>}
              <ul class="rows">{shown.map((t) => <Token key={t.id} token={t} mine={isMine(t)} ask={() => setAsking(t)} />)}</ul>
              {valid.length > shown.length && <p class="muted">These are the newest {count(shown.length)} of {count(valid.length)}.</p>}
              {all.length > valid.length && <p class="muted">{plural(all.length - valid.length, "other")} ran out or {all.length - valid.length === 1 ? "was" : "were"} revoked.</p>}
            </>
          );
        }}
      </Loaded>
      {asking && (
        <Confirm title={asking.agent === "operator" ? "End this session of the console?" : `Revoke this token of ${asking.agent}?`} word="Revoke it" danger
          act={async () => {
            await run("agent_token", { revoke: true, id: asking.id });
            setSaid(`${asking.id} is revoked: whoever has it is let in no more.`);
          }}
          onDone={(done) => {
            setAsking(null);
            if (done) tokens.reload();
          }}>
          <p>Whoever uses it is refused from the next request on. This cannot be undone; another one can be issued.</p>
          {isMine(asking) && <p class="warn">It is the session of this page: you are logged out, and <code>mailroom console</code> begins another one.</p>}
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
        <b>{session ? "Session of the console" : <Agent name={t.agent} />}{mine ? ", this page" : ""}</b>
        <span><code>{t.id}</code> · {t.admin ? "an administrator’s right" : "acts as the agent only"} · since <When at={t.created_at} seconds={false} /></span>
      </div>
      <div class="value"><span>{t.expires_at ? <>ends <When at={t.expires_at} seconds={false} /></> : "never ends"}</span></div>
      <button class="btn" type="button" aria-label={`Revoke ${t.id}`} onClick={ask}>Revoke…</button>
    </li>
  );
}
