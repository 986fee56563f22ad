// Audit: the named queries, and SELECT statements typed by a person. The address contains the named query and its
// parameters, but not a typed statement.

import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { run } from "../api.js";
import { useCommand } from "../data.js";
import { Command, Hint, Loaded, Problem } from "../parts.jsx";
import { go, route, to } from "../route.js";
import { quoted } from "../words.js";
import { Answer } from "./audit/answer.jsx";

const limits = [100, 1000, 10_000];
// byHand is the query that the person is typing.
const byHand = signal("SELECT status, count(*) FROM agent_message GROUP BY status");

export function Audit({ rest }) {
  const named = useCommand("sql", { list: true }, { matters: () => false });
  const [open] = rest;
  if (named.failure?.code === "permission_denied") return <><h1>Audit</h1><Problem failure={named.failure} /></>;
  return (
    <div class={open ? "audit detail" : "audit"}>
      <nav class="audits" aria-label="Audits">
        <h1 class="narrow-only">Audit</h1>
        <a href={to(["audit", "sql"])} aria-current={open === "sql" || !open ? "page" : undefined}><b>Your own query</b><span>Run a SELECT statement</span></a>
        <Loaded of={named}>
          {({ named: all }) => all.map((a) => <a key={a.name} href={to(["audit", a.name])} aria-current={a.name === open ? "page" : undefined}><b class="mono">{a.name}</b><span>{a.about}</span></a>)}
        </Loaded>
      </nav>
      <div class="answer">
        <a class="link back" href="/audit">All audits</a>
        {!open || open === "sql" ? <ByHand /> : named.data && <Named key={open} name={open} audit={named.data.named.find((a) => a.name === open)} />}
      </div>
    </div>
  );
}

// Named runs a named query immediately, with the parameters from the address or the defaults.
function Named({ name, audit }) {
  const given = route.value.query;
  const values = (audit?.params ?? []).map((p) => given[p.name] ?? p.default);
  const [typed, setTyped] = useState(values), [limit, setLimit] = useState(1000);
  const answer = useCommand(audit ? "sql" : null, { named: name, params: values, limit }, { matters: () => false });
  if (!audit) return <section class="lede"><h1>There is no audit {name}</h1><p>To run an audit, choose one from the list.</p></section>;
  const ask = (event) => {
    event.preventDefault();
    const changed = Object.fromEntries(audit.params.map((p, i) => [p.name, typed[i] === p.default ? "" : typed[i]]));
    if (typed.every((value, i) => value === values[i])) answer.reload();
    else go(to(["audit", name], changed));
  };
  const params = values.flatMap((value, i) => (value === audit.params[i].default && values.every((v, j) => v === audit.params[j].default) ? [] : ["--params", quoted(value)]));
  return (
    <>
      <section class="lede"><h1>{audit.about.replace(/\.$/, "")}</h1><p><Hint text={audit.notes} /></p></section>
      <form class="query" onSubmit={ask}>
        <div class="fields">
          {audit.params.map((p, i) => (
            <label class="field" key={p.name}><span>{p.name.replaceAll("_", " ")}</span><input class="field-text" value={typed[i]} onInput={(e) => setTyped(typed.with(i, e.target.value))} /></label>
          ))}
          <Limit value={limit} change={setLimit} />
          <button class="btn" disabled={answer.loading}>Run again</button>
        </div>
      </form>
      <Problem failure={answer.failure} retry={answer.reload} />
      {answer.data ? <div class={answer.failure ? "old" : undefined}><Answer name={name} data={answer.data} limit={limit} empty="The audit found no rows." /></div> : !answer.failure && <p class="muted" aria-busy="true">Loading…</p>}
      <Command text={["mailroom sql --named", name, ...params].join(" ")} />
      <details><summary>The query</summary><pre class="out">{audit.sql}</pre></details>
    </>
  );
}

const Limit = ({ value, change }) => (
  <label class="field"><span>Maximum rows</span>
    <select class="field-text" value={value} onChange={(e) => change(Number(e.target.value))}>{limits.map((n) => <option value={n}>{n.toLocaleString("en")}</option>)}</select>
  </label>
);

function ByHand() {
  const [state, setState] = useState({}), [limit, setLimit] = useState(1000);
  const under = useRef(null);
  useEffect(() => () => under.current?.abort(), []);
  const query = byHand.value.trim();
  const ask = async (event) => {
    event.preventDefault();
    under.current?.abort();
    const mine = (under.current = new AbortController());
    setState((before) => ({ ...before, busy: true }));
    try {
      const data = await run("sql", { query: byHand.value.trim(), limit }, { signal: mine.signal });
      setState({ data, limit });
    } catch (failure) {
      if (failure.name !== "AbortError") setState({ failure });
    }
  };
  const stop = () => {
    under.current?.abort();
    setState((before) => ({ ...before, busy: false }));
  };
  return (
    <>
      <section class="lede"><h1>Query the tables</h1><p>Run one SELECT statement on a read-only connection. Mailroom stops the query after one minute. For a description of the tables, see <code>schema.sql</code>.</p></section>
      <form class="query" onSubmit={ask}>
        <textarea aria-label="Query" spellcheck={false} autocomplete="off" value={byHand.value} onInput={(e) => (byHand.value = e.target.value)}
          onKeyDown={(e) => e.key === "Enter" && (e.ctrlKey || e.metaKey) && e.currentTarget.form.requestSubmit()} />
        <div class="fields">
          <Limit value={limit} change={setLimit} />
          <button class="btn first" disabled={!query || state.busy}>Run <kbd>Ctrl Enter</kbd></button>
          {state.busy && <button class="btn quiet" type="button" onClick={stop}>Stop</button>}
        </div>
      </form>
      <Problem failure={state.failure} />
      {state.data && <Answer name="query" data={state.data} limit={state.limit} empty="The query found no rows." />}
      {query && <Command text={`mailroom sql ${quoted(query)}`} />}
    </>
  );
}
