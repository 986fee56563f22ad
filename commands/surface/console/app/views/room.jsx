// Who writes to whom, as a picture and as a list, and the list of agents.

import { go, route, to } from "../route.js";
import { bytes, count, plural } from "../words.js";
import { Age, Agent, Icon, State } from "../parts.jsx";
import { standing } from "../standing.js";
import { height, place, width } from "./layout.js";

// troubles lists the states of agents that have a problem, the worst first.
const troubles = ["disabled", "session_failed", "given_up", "fails", "unread", "silent", "retries"];
const troubled = (state) => troubles.indexOf(state);
const rank = (state) => (troubled(state) < 0 ? 9 : troubled(state));

const mostDrawn = 25, mostListed = 12;

// trouble returns the problem of a pair of agents, as [color, words], or null. If the recipient is disabled, all its
// messages wait.
function trouble(pair, member) {
  if (pair.failed) return ["bad", `${count(pair.failed)} failed`];
  if (member?.state === "disabled" && pair.pending + pair.retry > 0) return ["bad", `${count(pair.pending + pair.retry)} ${pair.pending + pair.retry === 1 ? "waits" : "wait"}`];
  if (member?.state === "unread" && pair.unread) return ["warn", `${count(pair.unread)} unread`];
  if (pair.retry) return ["warn", `${count(pair.retry)} retried`];
  return null;
}

const filled = (pair) => ({ failed: 0, retry: 0, pending: 0, unread: 0, ...pair });

export function Room({ there }) {
  const members = new Map(there.agents.map((member) => [member.name, member]));
  const pairs = there.pairs.map(filled).map((pair) => ({ ...pair, trouble: trouble(pair, members.get(pair.recipient)) }));
  const query = route.value.query, asList = query.room === "list", asCosts = query.room === "costs";
  return (
    <section>
      <div class="bar">
        <h2>{asCosts ? "What messages cost" : "Who writes to whom"}</h2>
        {(pairs.length > 0 || there.costs.length > 0 || asCosts) && (
          <span class="muted wide">
            {pairs.length > 0 && !asList && !asCosts && "wide: many · red: failing · amber: unread or retried · "}
            {shapes.filter(([name]) => name !== (query.room ?? "")).map(([name, word], i) => <>{i > 0 && " · "}<a class="link" href={to([], { ...query, room: name })}>{word}</a></>)}
          </span>
        )}
      </div>
      {pairs.length === 0 && !asCosts && <p class="muted">No agent sent a message in the last hour.</p>}
      {pairs.length > 0 && !asList && !asCosts && <Picture pairs={pairs} members={members} />}
      {pairs.length > 0 && !asCosts && <Pairs pairs={pairs} narrow={!asList} />}
      {asCosts && <Costs costs={there.costs} />}
      {there.cut && <p class="muted">This section covers only the newest messages of the last hour.</p>}
    </section>
  );
}

// shapes lists the forms in which the section can show its data.
const shapes = [["", "as a picture"], ["list", "as a list"], ["costs", "what messages cost"]];

// Costs renders how much text the messages of each sender added to the context of each recipient, the largest amount
// first.
function Costs({ costs }) {
  if (!costs.length) return <p class="muted">No message added text to an agent’s context in this hour or the previous hour.</p>;
  return (
    <table class="pairs">
      <thead><tr><th>From and to</th><th class="num">Size</th><th class="num" title="Estimated as a quarter of the bytes">Tokens (estimate)</th></tr></thead>
      <tbody>{costs.slice(0, mostDrawn).map((one) => (
        <tr key={`${one.sender} ${one.recipient}`}>
          <td><a class="pair" href={to(["agents", one.recipient])}><b>{one.sender}</b><Icon name="to" /><b>{one.recipient}</b></a></td>
          <td class="num">{bytes(one.bytes)}</td><td class="num">{count(one.tokens)}</td>
        </tr>
      ))}</tbody>
    </table>
  );
}

// Pairs renders the data of the picture as a list.
function Pairs({ pairs, narrow }) {
  const sorted = [...pairs].sort((a, b) => !!b.trouble - !!a.trouble), shown = sorted.slice(0, mostDrawn);
  return (
    <>
      <table class={narrow ? "narrow pairs" : "pairs"}>
        <thead class="unseen"><tr><th>From and to</th><th>Problem</th><th>Messages</th></tr></thead>
        <tbody>
          {shown.map((pair) => (
            <tr key={`${pair.sender} ${pair.recipient}`}>
              <td><a class="pair" href={to(["messages"], { from: pair.sender, to: pair.recipient })}><b>{pair.sender}</b><Icon name="to" /><b>{pair.recipient}</b></a></td>
              <td class={`num ${pair.trouble?.[0] ?? ""}`}>{pair.trouble?.[1]}</td>
              <td class="num" title={plural(pair.messages, "message")}>{count(pair.messages)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {sorted.length > shown.length && <p class={narrow ? "muted narrow" : "muted"}>{plural(sorted.length - shown.length, "more pair is", "more pairs are")} not shown. To list all pairs, run <code>mailroom room</code>.</p>}
    </>
  );
}

// drawn returns the agents in the picture: first those with problems, then those that send or receive most.
function drawn(pairs, members) {
  const busy = new Map();
  for (const pair of pairs) {
    const n = pair.messages + (pair.trouble ? 1e6 : 0);
    for (const name of [pair.sender, pair.recipient]) busy.set(name, (busy.get(name) ?? 0) + n);
  }
  const names = [...busy.keys()].sort((a, b) => rank(members.get(a)?.state ?? "") - rank(members.get(b)?.state ?? "") || busy.get(b) - busy.get(a) || (a < b ? -1 : 1));
  return names.slice(0, mostDrawn);
}

function Picture({ pairs, members }) {
  const names = drawn(pairs, members), shown = pairs.filter((pair) => pair.sender !== pair.recipient && names.includes(pair.sender) && names.includes(pair.recipient));
  const places = place(names, shown.map((pair) => [pair.sender, pair.recipient])), most = Math.max(1, ...shown.map((pair) => pair.messages));
  const edges = [...shown].sort((a, b) => !!a.trouble - !!b.trouble).map((pair) => ({ pair, ...curve(places.get(pair.sender), places.get(pair.recipient), 1.2 + 4.8 * Math.sqrt(pair.messages / most)) }));
  const tone = (pair) => pair.trouble?.[0] ?? (pair.messages >= most / 4 ? "busy" : "");
  return (
    <>
      <svg class="room wide" viewBox={`0 0 ${width} ${height}`} role="group" aria-label="Who writes to whom. The list shows the same data.">
        {edges.map(({ pair, path, head, wide }) => (
          <g key={`${pair.sender} ${pair.recipient}`}>
            <path class={`e ${tone(pair)}`} stroke-width={wide} d={path}><title>{`${pair.sender} to ${pair.recipient}: ${plural(pair.messages, "message")}${pair.trouble ? `, ${pair.trouble[1]}` : ""}`}</title></path>
            <path class={`ah ${tone(pair)}`} d={head} />
          </g>
        ))}
        {names.map((name) => <Node key={name} name={name} at={places.get(name)} member={members.get(name)} above={isAbove(name, places, shown)} />)}
        {edges.filter(({ pair }) => pair.trouble).map(({ pair, middle: [x, y] }) => <text key={`${pair.sender} ${pair.recipient}`} class={`nb halo ${pair.trouble[0]}`} x={x} y={y} dy="4" text-anchor="middle">{pair.trouble[1]}</text>)}
      </svg>
      {members.size > names.length && pairs.length > shown.length && <p class="muted wide">The picture shows {names.length} agents: those with problems, then the busiest.</p>}
    </>
  );
}

// Node renders an agent in the picture, as a link to its page.
function Node({ name, at, member, above }) {
  const { name: shape, word } = standing(member ?? { known: false }), size = shape === "working" ? 24 : 16, href = to(["agents", name]);
  const open = (event) => {
    if (event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(href);
  };
  return (
    <a href={href} onClick={open}>
      <title>{`${name}: ${word}`}</title>
      <g class={`state ${shape === "silent" ? "overdue" : shape}`}>
        <circle class="node" cx={at.x} cy={at.y} r="9" /><use class="st" href={`#s-${shape}`} x={at.x - size / 2} y={at.y - size / 2} width={size} height={size} />
      </g>
      <text class="halo" x={at.x} y={at.y + (above ? -14 : 23)} text-anchor="middle">{name}</text>
    </a>
  );
}

// isAbove reports whether the name of an agent is drawn above the agent, where fewer lines cross it.
function isAbove(name, places, pairs) {
  const others = pairs.filter((pair) => pair.sender === name || pair.recipient === name).map((pair) => places.get(pair.sender === name ? pair.recipient : pair.sender).y);
  return others.length === 0 || others.reduce((sum, y) => sum + y, 0) / others.length >= places.get(name).y;
}

const r = (n) => Math.round(n * 10) / 10;

// curve returns the line from one agent to another, bent to the left, with its arrowhead and its middle.
function curve(a, b, wide) {
  const dx = b.x - a.x, dy = b.y - a.y, long = Math.hypot(dx, dy) || 1, bend = Math.min(26, 0.16 * long);
  const cx = (a.x + b.x) / 2 + (dy / long) * bend, cy = (a.y + b.y) / 2 - (dx / long) * bend;
  const [ux, uy] = toward(a, { x: cx, y: cy }), [vx, vy] = toward({ x: cx, y: cy }, b), size = 5 + 0.9 * wide;
  const sx = a.x + 13 * ux, sy = a.y + 13 * uy, tx = b.x - 13 * vx, ty = b.y - 13 * vy, ex = tx - size * vx, ey = ty - size * vy;
  return {
    wide: r(wide), path: `M${r(sx)} ${r(sy)}Q${r(cx)} ${r(cy)} ${r(ex)} ${r(ey)}`,
    head: `M${r(tx)} ${r(ty)}L${r(ex - (size / 2) * vy)} ${r(ey + (size / 2) * vx)}L${r(ex + (size / 2) * vy)} ${r(ey - (size / 2) * vx)}Z`,
    middle: [r(sx / 4 + cx / 2 + ex / 4), r(sy / 4 + cy / 2 + ey / 4)],
  };
}

function toward(a, b) {
  const long = Math.hypot(b.x - a.x, b.y - a.y) || 1;
  return [(b.x - a.x) / long, (b.y - a.y) / long];
}

// Members renders the list of agents. Agents with problems come first.
export function Members({ there }) {
  const list = there.agents.filter((member) => !member.built_in || member.unread + member.pending > 0);
  list.sort((a, b) => rank(a.state) - rank(b.state) || (b.heard_at ?? "").localeCompare(a.heard_at ?? "") || (a.name < b.name ? -1 : 1));
  const waits = (member) => member.pending + member.unread;
  return (
    <section>
      <div class="bar"><h2>Agents</h2><a class="link" href="/agents">All {count(there.agents.filter((member) => member.known && !member.built_in).length)}</a></div>
      <table>
        <thead><tr><th>Name</th><th>Presence</th><th class="num" title="Undelivered, or unread in the inbox">Waiting</th><th class="num">Oldest</th><th class="num wide-c">Heard</th></tr></thead>
        <tbody>
          {list.slice(0, mostListed).map((member) => {
            const { name: shape, word } = standing(member);
            return (
              <tr key={member.name}>
                <td><Agent name={member.name} /></td>
                <td><State name={shape} word={word} /></td>
                <td class={waits(member) ? "num" : "num faint"}>{count(waits(member))}</td>
                <td class={troubled(member.state) < 0 ? "num muted" : "num"}>{waits(member) > 0 && <Age at={member.oldest_at} />}</td>
                <td class="num muted wide-c"><Age at={member.heard_at} /></td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </section>
  );
}
