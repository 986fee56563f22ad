// The agents: a list of all agents, and a page for each agent.

import { useRef, useState } from "preact/hooks";
import { useCommand } from "../data.js";
import { useKeys } from "../keys.js";
import { mayAdminister } from "../me.js";
import { needed } from "../needs.js";
import { go, route, setQuery, to } from "../route.js";
import { oldest, standing } from "../standing.js";
import { Age, Empty, Loaded, State } from "../parts.jsx";
import { count, sentence } from "../words.js";
import { AgentPage } from "./agent.jsx";
import { ChangeAgent } from "./agent-change.jsx";

const pageSize = 100;

export function Agents({ rest }) {
  return rest.length ? <Split name={rest[0]} /> : <List />;
}

// useList requests a page of the agents. Agents that need a person come first.
function useList(page, search) {
  const list = useCommand("agent_list", { backlog: true, order: "waiting", limit: pageSize, skip: page * pageSize, search }, { every: 15_000 });
  return list.data ? { ...list, data: { ...list.data, agents: list.data.agents.toSorted((a, b) => rank(a) - rank(b)) } } : list;
}

// rank returns the position of an agent on a page: failing agents come before agents that only need a look.
function rank(agent) {
  const { bad, warn } = standing(agent);
  return bad ? 0 : warn ? 1 : 2;
}

function List() {
  const { q: search = "", page: at = "0" } = route.value.query;
  const page = Math.max(0, parseInt(at, 10) || 0);
  const list = useList(page, search);
  const [adding, setAdding] = useState(false);
  const agents = list.data?.agents ?? [];
  const [marked, mark] = useMarked(agents.map((a) => to(["agents", a.name])));
  const added = (name) => {
    setAdding(false);
    if (!name) return;
    needed.value.reload(); // updates the numbers in the rail
    go(to(["agents", name]));
  };
  return (
    <>
      <section class="lede">
        <div class="bar">
          <h1>{headline(list.data, search)}</h1>
          <div class="acts"><button class="btn" type="button" disabled={!mayAdminister()} onClick={() => setAdding(true)}>Add an agent</button></div>
        </div>
        <p>Disabled and failing agents come first, then agents that are silent or do not read messages, then agents with the most waiting messages.</p>
      </section>
      <Search value={search} label="Find a name, a role, or a host" />
      <Loaded of={list}>{(data) => <Table data={data} page={page} search={search} marked={marked} mark={mark} />}</Loaded>
      {adding && <ChangeAgent onDone={added} />}
    </>
  );
}

// headline returns the title, which states how many agents need a person.
function headline(data, search) {
  if (!data) return "Agents";
  if (search) return `${sentence(data.total, "agent")} with “${search}”`;
  const bad = data.agents.filter((a) => standing(a).bad || standing(a).warn);
  const of = data.total > data.agents.length ? `of these ${count(data.agents.length)} agents` : "";
  if (bad.length) return `${of ? sentence(bad.length, `${of} needs`, `${of} need`) : sentence(bad.length, "agent needs", "agents need")} attention`;
  const known = data.total - 2; // the operator and the user are not agents
  return known > 0 ? sentence(known, "agent") : "There are no agents yet";
}

function Table({ data, page, search, marked, mark }) {
  if (search && !data.total) return <Empty>No agent has this text in its name, role, or host.</Empty>;
  const hosts = data.agents.some((a) => a.host);
  return (
    <>
      {!search && data.total <= 2 && <Empty command="mailroom agent add NAME --role 'what it does'">An agent exists after you add it, or after it sends its first message.</Empty>}
      <table class="roster">
        <thead><tr><th>Agent</th><th>State</th>{hosts && <th class="wide-c">Host</th>}<th class="wide-c">Transport</th><th class="num">Waiting</th><th class="num">Unread</th><th class="num">Oldest</th><th class="num wide-c">Heard</th></tr></thead>
        <tbody>{data.agents.map((agent, i) => <Row key={agent.name} agent={agent} hosts={hosts} at={i === marked} onMark={() => mark(i)} />)}</tbody>
      </table>
      <Pages page={page} total={data.total} />
    </>
  );
}

function Row({ agent, hosts, at, onMark }) {
  const state = standing(agent), backlog = agent.backlog;
  return (
    <tr class={at ? "at" : undefined} aria-selected={at} onClick={onMark}>
      <td><a class="agent" href={to(["agents", agent.name])}>{agent.name}</a></td>
      <td><State name={state.name} word={state.word} title={agent.disabled} /></td>
      {hosts && <td class="wide-c">{agent.host}</td>}
      <td class="wide-c cut mono" title={agent.deliver}>{agent.deliver}</td>
      <Number n={backlog.pending + backlog.retry} word="wait" />
      <Number n={backlog.unread} word="unread" />
      <td class="num" data-word={oldest(backlog) && "old"}><Age at={oldest(backlog)} /></td>
      <td class="num wide-c muted"><Age at={agent.heard_at} /></td>
    </tr>
  );
}

// Number renders a table cell with a number. word is shown beside the number when the table has no header.
const Number = ({ n, word }) => <td class={n ? "num" : "num faint nil"} data-word={word}>{count(n)}</td>;

// Pages renders links to the other pages of a list that is too long for one page.
function Pages({ page, total }) {
  if (total <= pageSize) return null;
  const last = Math.ceil(total / pageSize) - 1, of = (n) => to(route.value.path, { ...route.value.query, page: n || "" });
  return (
    <p class="pages">
      {page > 0 && <a class="link" href={of(page - 1)}>Previous</a>}
      <span class="muted">{count(page * pageSize + 1)} to {count(Math.min(total, (page + 1) * pageSize))} of {count(total)}</span>
      {page < last && <a class="link" href={of(page + 1)}>Next</a>}
    </p>
  );
}

// Search renders a field that filters a list while a person types. The address contains the text.
export function Search({ value, label }) {
  return <input class="field-text search" type="search" aria-label={label} placeholder={label} value={value} onInput={(e) => setQuery({ q: e.target.value, page: "" })} />;
}

// useMarked moves a mark through a list of addresses with j and k, and opens the marked address with Enter. / moves
// the focus to the search field.
export function useMarked(addresses) {
  const [marked, setMarked] = useState(-1), now = useRef(-1); // keys can arrive faster than the page is rendered
  const mark = (i) => setMarked((now.current = i));
  const move = (by) => () => mark(Math.max(0, Math.min(addresses.length - 1, now.current + by)));
  useKeys(
    { j: move(1), k: move(-1), Enter: () => (addresses[now.current] ? go(addresses[now.current]) : false), "/": () => document.querySelector(".search")?.focus() },
    [["j k", "down, up"], ["Enter", "open"], ["/", "find"]],
  );
  return [marked, mark];
}

// Split renders the list beside the page of one agent.
function Split({ name }) {
  const list = useList(0, "");
  return (
    <div class="split detail bleed">
      <section class="list">
        <header><h2>Agents</h2><a class="link" href="/agents">All</a></header>
        <ul>{list.data?.agents.map((agent) => <Item key={agent.name} agent={agent} current={agent.name === name} />)}</ul>
        {list.data?.total > pageSize && <p class="muted beyond">The first {count(pageSize)} of {count(list.data.total)}</p>}
      </section>
      <section class="open"><AgentPage key={name} name={name} /></section>
    </div>
  );
}

function Item({ agent, current }) {
  const state = standing(agent), { pending, retry, unread } = agent.backlog, n = pending + retry;
  return (
    <li>
      <a href={to(["agents", agent.name])} aria-current={current ? "true" : undefined}>
        <span class="r"><State name={state.name} word="" /><b>{agent.name}</b><span class={n + unread && state.bad ? "hot" : n + unread && state.warn ? "hot warn" : undefined}>{n ? `${count(n)} waiting` : unread ? `${count(unread)} unread` : ""}</span></span>
        <span class="cut">{state.word}</span>
      </a>
    </li>
  );
}
