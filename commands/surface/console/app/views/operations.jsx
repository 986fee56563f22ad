// Operations: the sections for administrators. Each section has its own address.

import { useCommand } from "../data.js";
import { mayAdminister } from "../me.js";
import { Loaded, Problem } from "../parts.jsx";
import { to } from "../route.js";
import { bytes, count, plural } from "../words.js";
import { ago } from "../time.js";
import { Database } from "./operations/database.jsx";
import { DeadLetters, givenUp } from "./operations/deadletters.jsx";
import { Doctor } from "./operations/doctor.jsx";
import { Schedules } from "./operations/schedules.jsx";
import { Settings } from "./operations/settings.jsx";

const sections = [
  ["", "All", Overview], ["dead-letters", "Dead letters", DeadLetters], ["schedules", "Schedules", Schedules], ["settings", "Settings", Settings],
  ["database", "Database", Database], ["doctor", "Doctor", Doctor],
];

const address = (path) => to(path ? ["operations", path] : ["operations"]);

const forbidden = { code: "permission_denied", message: "Operations are for administrators." };

export function Operations({ rest }) {
  if (!mayAdminister()) return <><h1>Operations</h1><Problem failure={forbidden} /></>;
  const open = rest[0] ?? "";
  const Section = sections.find(([path]) => path === open)?.[2];
  return (
    <>
      <nav class="facets first" aria-label="Operations">
        {sections.map(([path, word]) => <a href={address(path)} aria-current={path === open ? "page" : undefined}>{word}</a>)}
      </nav>
      {Section ? <Section /> : <section class="lede"><h1>This page does not exist</h1><p>Go to <a href={address("")}>Operations</a>.</p></section>}
    </>
  );
}

// Overview summarizes each section in a sentence.
function Overview() {
  const dead = useCommand("dead_letters_groups", { limit: 1 }, { matters: givenUp });
  const schedules = useCommand("schedule_list", {}, { matters: () => false, every: 60_000 });
  const settings = useCommand("setting_list", {}, { matters: () => false });
  const status = useCommand("status", {}, { matters: () => false, every: 60_000 });
  return (
    <>
      <section class="lede"><h1>Operations</h1><p>Dead letters, schedules, settings, and the state of the database.</p></section>
      <ul class="rows">
        <Line path="dead-letters" word="Dead letters" of={dead}>{deadSentence}</Line>
        <Line path="schedules" word="Schedules" of={schedules}>{scheduleSentence}</Line>
        <Line path="settings" word="Settings" of={settings}>{settingSentence}</Line>
        <Line path="database" word="Database" of={status}>{databaseSentence}</Line>
        <li class="row"><div class="what"><b><a href={address("doctor")}>Doctor</a></b><span>Checks of the database and of the transport of each agent. Tokens and console sessions.</span></div></li>
      </ul>
    </>
  );
}

const Line = ({ path, word, of, children }) => (
  <li class="row"><div class="what"><b><a href={address(path)}>{word}</a></b><Loaded of={of}>{(data) => <span>{children(data)}</span>}</Loaded></div></li>
);

const deadSentence = ({ total, groups }) =>
  total ? `${plural(total, "dead letter")}, ${groups.length > 1 ? "most of them " : ""}to ${groups[0].recipient}. The last failure was ${ago(groups[0].latest)}.` : "There are no dead letters.";

function scheduleSentence({ schedules }) {
  const failed = schedules.filter((s) => s.last_run?.failed || s.problem).map((s) => s.name);
  return `${plural(schedules.length, "schedule")}${failed.length ? `; ${failed.join(", ")} failed` : ""}.`;
}

function settingSentence({ settings }) {
  const changed = settings.filter((s) => s.value !== s.default).length;
  return `${plural(settings.length, "setting")}, ${changed ? count(changed) : "none"} of them changed.`;
}

const databaseSentence = ({ database_bytes, wal_bytes, totals, daemons }) =>
  `${bytes(database_bytes)} and ${bytes(wal_bytes)} of write-ahead log, ${plural(totals.archived, "archived message")}, ${daemons.length ? `${plural(daemons.length, "daemon")} running` : "no daemon running"}.`;
