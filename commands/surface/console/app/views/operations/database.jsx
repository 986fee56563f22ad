// Database: its size, its retention times, the daemons that serve it, and the commands for its maintenance.

import { useCommand } from "../../data.js";
import { Age, Agent, Command, Loaded, State } from "../../parts.jsx";
import { to } from "../../route.js";
import { bytes, count, plural, quoted } from "../../words.js";
import { Ago } from "./asked.jsx";

// version is a query. Its result "9: 8" is version 9, which programs of version 8 can still use.
const version = "SELECT value FROM settings WHERE key = 'schema.oldest'";

export function Database() {
  const status = useCommand("status", {}, { matters: () => false, every: 30_000 });
  const settings = useCommand("setting_list", {}, { matters: () => false });
  const agents = useCommand("agent_list", {}, { matters: () => false });
  const tables = useCommand("sql", { query: version }, { matters: () => false });
  return (
    <>
      <Loaded of={status}>
        {(s) => (
          <>
            <section class="lede"><h1>{bytes(s.database_bytes + s.wal_bytes)} on disk</h1><p><bdi class="mono">{s.database}</bdi></p></section>
            {s.moved_to && <p class="bad">The database has moved to <bdi class="mono">{s.moved_to}</bdi>. Use the new database. The old database no longer accepts messages.</p>}
            {s.untrusted && <p class="warn">The database is not trusted on this machine, so Mailroom does not run its commands and schedules, write files, or call URLs for it: {s.untrusted}. To list what the database would run, write, and call, run <code>mailroom trust --show</code>.</p>}
            <div class="three">
              <section><h3>Messages</h3><dl class="facts wide-facts">
                {["pending", "retry", "delivered", "failed", "expired", "cancelled", "archived"].map((state) => <><dt>{state}</dt><dd class="num">{count(s.totals[state])}</dd></>)}
              </dl></section>
              {!onServer(s) && <section><h3>Write-ahead log</h3><dl class="facts wide-facts"><dt>Now</dt><dd class="num">{bytes(s.wal_bytes)}</dd><Kept settings={settings} keys={{ "wal.limit": "Limit" }} /></dl></section>}
              <section><h3>Retention</h3><dl class="facts wide-facts"><Kept settings={settings} keys={{ "retention.ended": "Finished messages", "retention.archive": "Archived", "retention.trace": "Traces" }} /></dl>
                <p class="muted">To change these times, open <a href={to(["operations", "settings"])}>Settings</a>. The commands <code>clear_old</code> and <code>clear_traces</code> apply them.</p></section>
              <section><h3>Tables</h3><Loaded of={tables}>{(t) => <Version rows={t.rows} />}</Loaded></section>
            </div>
            <Daemons daemons={s.daemons} agents={agents} />
          </>
        )}
      </Loaded>
      {status.data && (onServer(status.data) ? <CareOfServer database={status.data.database} /> : <CareOfFile />)}
    </>
  );
}

const onServer = ({ database }) => /^postgres(ql)?:/.test(database);

const CareOfFile = () => (
  <>
    <section>
      <div class="bar"><h2>Backups</h2></div>
      <p class="muted">You can make a backup while agents send messages. Run these commands in a terminal on the database’s machine.</p>
      <div class="commands">
        <Command text="mailroom backup /var/backups/mailroom.db" />
        <Command text="mailroom restore /var/backups/mailroom.db" />
        <Command text="mailroom checkpoint --truncate" />
      </div>
    </section>
    <section>
      <div class="bar"><h2>Move the database</h2></div>
      <p class="muted">To use the database from many machines at the same time, move it to a PostgreSQL server.</p>
      <Command text="mailroom migrate --help" />
    </section>
  </>
);

const CareOfServer = ({ database }) => (
  <section>
    <div class="bar"><h2>Backups</h2></div>
    <p class="muted">To back up the database, use the tools of the server. To move the database back to a file, run <code>mailroom migrate</code>.</p>
    <div class="commands"><Command text={`pg_dump --format=custom --file=mailroom.dump ${quoted(database)}`} /><Command text="mailroom migrate --help" /></div>
  </section>
);

const Kept = ({ settings, keys }) => (settings.data?.settings ?? []).filter((s) => keys[s.key]).map((s) => (
  <><dt>{keys[s.key]}</dt><dd class="num">{s.key === "wal.limit" ? bytes(Number(s.value)) : s.value}</dd></>
));

function Version({ rows }) {
  const [now, oldest] = (rows[0]?.value ?? "").split(": ");
  if (!now) return <p class="muted">The version of the tables is unknown.</p>;
  return <dl class="facts wide-facts"><dt>Version</dt><dd class="num">{now}</dd><dt>Oldest program</dt><dd class="num">{oldest ?? now}</dd></dl>;
}

// Daemons renders the running daemons and, if agents belong to machines, the machines with their agents.
function Daemons({ daemons, agents }) {
  const hosts = new Map();
  for (const a of agents.data?.agents ?? []) if (a.host) hosts.set(a.host, [...(hosts.get(a.host) ?? []), a.name]);
  for (const d of daemons) if (hosts.size && !hosts.has(d.host)) hosts.set(d.host, []);
  return (
    <>
      <section>
        <div class="bar"><h2>Daemons</h2></div>
        {daemons.length === 0 && <><p class="warn">No daemon is running. Mailroom delivers messages only when somebody runs <code>deliver_all</code> or waits for messages.</p><Command text="mailroom serve" /></>}
        <ul class="rows">
          {daemons.map((d) => (
            <li class="row">
              <div class="what"><b>{d.host}</b><span>process {d.pid}{d.listening ? <> · <bdi>{d.listening}</bdi></> : ""}</span></div>
              <div class="value"><State name="working" word={<span>running for <Age at={d.started_at} /></span>} /><small>last seen <Ago at={d.seen_at} /></small></div><span />
            </li>
          ))}
        </ul>
      </section>
      {hosts.size > 0 && (
        <section>
          <div class="bar"><h2>Machines</h2><span class="muted">agents with files or commands on them</span></div>
          <ul class="rows">
            {[...hosts].sort().map(([host, names]) => {
              const runs = daemons.some((d) => d.host === host);
              return (
                <li class="row">
                  <div class="what"><b>{host}</b><span class="people">{names.slice(0, 50).map((name) => <Agent name={name} />)}{names.length > 50 && <span>and {plural(names.length - 50, "other agent")}</span>}{!names.length && "no agents"}</span></div>
                  <State name={runs ? "working" : names.length ? "disabled" : "stopped"} word={runs ? "a daemon is running" : "no daemon"} /><span />
                </li>
              );
            })}
          </ul>
        </section>
      )}
    </>
  );
}
