// The text that messages added to the context of an agent's models in the last day, by hour and by sender.

import { useCommand } from "../data.js";
import { mayAdminister } from "../me.js";
import { Agent } from "../parts.jsx";
import { clock } from "../time.js";
import { bytes, count, plural } from "../words.js";

const hour = 3_600_000, hours = 24, mostListed = 8;

export function Context({ name }) {
  const { data } = useCommand(mayAdminister() ? "stats" : null, { agent: name, since: "24h", every: "1h" }, { matters: () => false, every: 60_000 });
  const context = data?.context;
  if (!context?.bytes) return null;
  const lines = context.by_sender.slice(0, mostListed);
  return (
    <section>
      <div class="bar"><h2>Text that messages added to its context</h2><span class="muted" title="Estimated as a quarter of the bytes">about {count(context.tokens)} tokens in the last day</span></div>
      <Hours list={context.by_hour} />
      <table class="context">
        <thead><tr><th>Sender</th><th>Type</th><th>How</th><th class="num">Messages</th><th class="num">Size</th><th class="num">Tokens</th></tr></thead>
        <tbody>{lines.map((one) => (
          <tr key={`${one.sender} ${one.message_type} ${one.way}`}>
            <td><Agent name={one.sender} /></td><td class="mono">{one.message_type}</td><td>{ways[one.way] ?? one.way}</td>
            <td class="num">{count(one.messages)}</td><td class="num">{bytes(one.bytes)}</td><td class="num">{count(one.tokens)}</td>
          </tr>
        ))}</tbody>
      </table>
      {context.by_sender.length > lines.length && <p class="muted small">{plural(context.by_sender.length - lines.length, "more row is", "more rows are")} not shown.</p>}
    </section>
  );
}

// ways maps each way in which a message entered the context to its words.
const ways = { hook: "shown", urgent: "shown beyond the budget", digest: "listed in a digest", tool: "read with a tool" };

// Hours renders a bar for each full hour of the last day.
function Hours({ list }) {
  const last = Math.floor(Date.now() / hour) * hour, begin = last - (hours - 1) * hour;
  const put = Array.from({ length: hours }, (_, i) => list.find(({ at }) => Date.parse(at) === begin + i * hour)?.bytes ?? 0), top = Math.max(...put);
  const most = put.indexOf(top), at = (i) => clock(new Date(begin + i * hour).toISOString(), { seconds: false });
  return (
    <figure class="plot">
      <svg class="field context" role="img" viewBox={`0 0 ${hours} 100`} preserveAspectRatio="none" aria-label={`Bytes per hour in the last day. The hour from ${at(most)} has the most: ${bytes(top)}.`}>
        {put.map((n, i) => n > 0 && <rect class="c-ok" x={i} width="1" y={100 - (100 * n) / top} height={(100 * n) / top}><title>{`${bytes(n)} in the hour from ${at(i)}`}</title></rect>)}
      </svg>
      <div class="ax" aria-hidden="true">{[0, 8, 16, 23].map((i) => <span>{at(i)}</span>)}</div>
    </figure>
  );
}
