// Schedules: the commands that the daemon runs automatically, the result of the last run, and how to run one now.

import { useState } from "preact/hooks";
import { run } from "../../api.js";
import { useCommand } from "../../data.js";
import { Command, Confirm, Hint, Loaded, State, When } from "../../parts.jsx";
import { span } from "../../time.js";
import { quoted } from "../../words.js";
import { Ago, Said, clip } from "./asked.jsx";

export function Schedules() {
  const schedules = useCommand("schedule_list", {}, { matters: () => false, every: 30_000 });
  const commands = useCommand("commands", {}, { matters: () => false });
  const status = useCommand("status", {}, { matters: () => false, every: 60_000 });
  const [asking, setAsking] = useState(null); // the schedule to run
  const [ran, setRan] = useState(null); // the result of the run
  const about = (command) => commands.data?.commands.find((c) => c.name === command)?.description;
  return (
    <>
      <section class="lede"><h1>Schedules</h1><p>The daemon runs these commands automatically.</p></section>
      {status.data?.daemons.length === 0 && <p class="warn">No daemon is running, so no schedule runs automatically. Run <code>mailroom serve</code> or <code>mailroom service install</code>.</p>}
      {ran && <Said><span>{ran.name} has run <code>{ran.command}</code> in {span(1000 * ran.seconds)}.</span><pre class="out">{clip(JSON.stringify(ran.answer, null, 2), 4000)}</pre></Said>}
      <Loaded of={schedules}>
        {({ schedules: all }) => (
          <>
            {all.length === 0 && <p class="muted">There are no schedules. Mailroom delivers messages only when somebody requests a delivery.</p>}
            <ul class="rows">{all.map((s) => <Schedule key={s.name} schedule={s} about={about(s.command)} ask={() => setAsking(s)} />)}</ul>
            <section>
              <div class="bar"><h2>Add or remove a schedule</h2></div>
              <p class="muted">You can add and remove schedules only in a terminal on the daemon’s machine.</p>
              <div class="commands">
                <Command text="mailroom schedule add nightly_backup '15 2 * * *' backup '{&quot;file&quot;:&quot;/var/backups/mailroom.db&quot;,&quot;overwrite&quot;:true}'" />
                <Command text="mailroom schedule remove NAME" />
              </div>
            </section>
          </>
        )}
      </Loaded>
      {asking && (
        <Run schedule={asking} about={about(asking.command)} say={setRan} onDone={() => {
          setAsking(null);
          schedules.reload();
        }} />
      )}
    </>
  );
}

function Schedule({ schedule: s, about, ask }) {
  const params = JSON.stringify(s.params);
  return (
    <li class="row">
      <div class="what">
        <b>{s.name}</b>
        <span>{inWords(s.spec)}{s.enabled ? "" : " · switched off"} · <code title={s.spec}>{s.command}{params === "{}" ? "" : ` ${clip(params, 200)}`}</code></span>
        {about && <span>{about}</span>}
        {s.problem && <span class="bad">{clip(s.problem)}</span>}
        {s.last_run?.failed && <span class="bad"><Hint text={clip(s.last_run.error || "It failed.")} /></span>}
      </div>
      <div class="value">
        <LastRun run={s.last_run} at={s.last_run_at} />
        <small>{s.next_run_at ? <>next <When at={s.next_run_at} seconds={false} /></> : null}</small>
      </div>
      <button class="btn" type="button" aria-label={`Run ${s.name} now`} onClick={ask}>Run now…</button>
    </li>
  );
}

// LastRun renders the result of the last run, as far as the trace contains it.
function LastRun({ run: last, at }) {
  if (!last) return at ? <span class="muted">ran <Ago at={at} /></span> : <span class="faint" title="A run that changes nothing leaves no trace.">no run in the trace</span>;
  if (!last.ended_at) return <State name="pending" word={<span>began <Ago at={last.started_at} /></span>} title={last.started_at} />;
  const took = span(Date.parse(last.ended_at) - Date.parse(last.started_at));
  return <State name={last.failed ? "failed" : "delivered"} word={<span>{last.failed ? "failed" : "ran"} <Ago at={last.started_at} />, {took}</span>} />;
}

const named = { __proto__: null, "@hourly": "every hour", "@daily": "every day at midnight", "@midnight": "every day at midnight", "@weekly": "every week", "@monthly": "every month", "@yearly": "every year", "@annually": "every year", "@doorbell": "after every send" };

// inWords describes when a schedule runs. If that is not simple, it returns the specification itself.
function inWords(spec) {
  if (named[spec]) return named[spec];
  const every = /^@every (\d+)(s|m|h)$/.exec(spec);
  if (every) return `every ${every[1]} ${{ s: "s", m: "min", h: "h" }[every[2]]}`;
  const daily = /^(\d{1,2}) (\d{1,2}) \* \* \*$/.exec(spec);
  if (daily) return `every day at ${daily[2].padStart(2, "0")}:${daily[1].padStart(2, "0")}, by the clock of the daemon`;
  return clip(spec, 100);
}

function Run({ schedule: s, about, say, onDone }) {
  const act = async () => say(await run("schedule_run", { name: s.name }, { slow: true }));
  return (
    <Confirm title={`Run ${s.name} now?`} word="Run it" act={act} onDone={onDone}>
      <p>This runs <code>{s.command}</code>{JSON.stringify(s.params) === "{}" ? "" : " with the schedule’s parameters"}, as the daemon does{about ? `: ${about[0].toLowerCase()}${about.slice(1)}` : ""}. The schedule does not change, and the trace records who ran the command.</p>
      {!s.last_run_at && !s.last_run ? null : <p class="muted">The last run was <Ago at={s.last_run?.started_at ?? s.last_run_at} />.</p>}
      <Command text={`mailroom schedule run ${quoted(s.name)}`} />
    </Confirm>
  );
}
