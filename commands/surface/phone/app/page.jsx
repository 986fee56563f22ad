// The page: its frame and its views.
import { groups } from "../../look/alerts.js";
import { Group } from "./alerts.jsx";
import { Line, Question, Whole } from "./cards.jsx";
import { Icon } from "./icon.jsx";
import { Pair, Revoked, Waiting } from "./pair.jsx";
import { Settings, Steps } from "./settings.jsx";
import { isUnread, names, read, state, target, view } from "./state.js";
import { when } from "./words.js";

// isOpen reports whether a record is a question that can be answered.
const isOpen = (record) => record.kind === "question" && record.status === "pending";

// titleOf returns the title of the page.
export function titleOf() {
  const open = state.records.filter(isOpen).length;
  return state.device?.state === "active" ? `${open ? `(${open}) ` : ""}${names[view()]} · Mailroom` : "Mailroom";
}

// Page renders the state. act has the actions of its buttons.
export function Page({ act }) {
  const { device } = state, paired = device?.state === "active", View = views[view()];
  return (
    <>
      <header class="top">
        <img src="/icon-192.png" alt="" width="28" height="28" />
        <span class="brand">Mailroom</span>
        <span id="project" class="project">{device?.project}</span>
        <span id="connection" class="chip" hidden={state.online}>Offline</span>
      </header>
      <div id="fresh" class="notice" hidden={!state.fresh}>
        <p>A newer version of this app is ready.</p>
        <button id="reload" type="button" class="btn" onClick={() => location.reload()}>Load it</button>
      </div>
      <main>{paired ? <View key={view()} act={act} /> : <><Entrance act={act} /><Problem /></>}</main>
      <nav id="views" aria-label="Views" hidden={!paired}>
        <Link name="questions" id="count" n={state.records.filter(isOpen).length} />
        <Link name="alerts" id="unread" n={state.records.filter(isUnread).length} />
        <Link name="history" />
        <Link name="settings" />
      </nav>
    </>
  );
}

const Link = ({ name, id, n }) => (
  <a href={`#${name}`} aria-current={name === view() ? "page" : undefined}>
    <Icon name={name} /><span>{names[name]}</span>{id && <> <span id={id} class="count">{n || null}</span></>}
  </a>
);

function Entrance({ act }) {
  const { device, code } = state;
  if (!device) return <Pair code={code} onDone={act.wake} />;
  if (device.state === "waiting") return <Waiting device={device} cancel={act.unpair} />;
  return <Revoked again={act.forget} />;
}

const Title = ({ name }) => <><h1>{names[name]}</h1><Problem /></>;
const Problem = () => state.problem && <p class="notice bad">{state.problem}</p>;
const Empty = ({ children }) => <p class="empty">{children}</p>;

const Stale = () => !state.online && (
  <p class="notice">
    <Icon name="offline" /> Cannot reach
    Mailroom. {state.refreshed && `This page shows the data from ${when(state.refreshed)}. `}The app keeps your answers and sends them later.
  </p>
);

// saidBy returns the data of a record that the page shows besides the record itself.
function saidBy(record) {
  const known = read.get(record.id);
  return {
    ...known, project: known.what?.projectId || state.device.project,
    sending: state.sending.get(record.id), draft: state.drafts.get(record.id),
  };
}

function Questions({ act }) {
  const stays = (r) => r.status === "pending" || state.stay.has(r.id) || r.id === target();
  const shown = state.records.filter((r) => r.kind === "question" && stays(r));
  return (
    <>
      <Title name="questions" />
      <Stale />
      <Steps state={state} act={act} />
      {shown.map((r) => <Whole key={r.id} record={r}><Question record={r} said={saidBy(r)} act={act} /></Whole>)}
      {!shown.length && <Empty>No open questions.</Empty>}
    </>
  );
}

function Alerts({ act }) {
  const shown = groups(state.records.filter((r) => r.kind === "alert" && !r.gone), ({ id }) => read.get(id)?.what);
  const isNew = ({ id }) => state.news.has(id);
  const shows = (record) => isNew(record) || !record.read || record.id === target();
  return (
    <>
      <Title name="alerts" />
      <Stale />
      {shown.map(({ key, list }) => <Group key={key} list={list} {...{ saidBy, shows, isNew, act }} />)}
      {!shown.length && <Empty>No alerts.</Empty>}
    </>
  );
}

function History({ act }) {
  const over = state.records.filter((r) => r.kind === "alert" || r.status !== "pending");
  const nothing = "Nothing yet. The app keeps your answers and your alerts here, on this device only.";
  if (!over.length) return <><Title name="history" /><Empty>{nothing}</Empty></>;
  return (
    <>
      <Title name="history" />
      <ul class="lines" role="list">
        {over.map((r) => <Whole as="li" key={r.id} record={r}><Line record={r} said={saidBy(r)} /></Whole>)}
      </ul>
      <button type="button" class="btn" onClick={act.clear}>Clear the history</button>
    </>
  );
}

const views = {
  questions: Questions, alerts: Alerts, history: History,
  settings: ({ act }) => <><Title name="settings" /><Settings state={state} act={act} /></>,
};
