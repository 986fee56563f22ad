// The alerts: one card for all alerts of one agent and one type.
import { AlertCard } from "../../look/alert-card.jsx";
import { Background, Labels, Project, Unreadable, Whole } from "./cards.jsx";
import { Icon } from "./icon.jsx";

// Group renders the card of a group. saidBy returns the contents of a record. isNew reports whether the alert arrived
// since the person last looked. Records for which `shows` returns true are not folded. act has dismiss(ids).
export function Group({ list, saidBy, shows, isNew, act }) {
  const { what, project } = saidBy(list[0]);
  return (
    <AlertCard list={list} what={what} Icon={Icon} shows={shows}
      from={what && <span class="from">{what.from}</span>} head={<Project name={project} />}
      told={(r) => <Whole key={r.id} record={r}><Alert record={r} said={saidBy(r)} isNew={isNew(r)} /></Whole>}
      dismiss={() => act.dismiss(list.map(({ id }) => id))} />
  );
}

const Alert = ({ record, said: { what, why }, isNew }) => (
  <article class="told" id={record.id} tabindex="-1">
    {what ? <p class="message">{what.message}</p> : <Unreadable why={why} />}
    {what && <Background what={what} />}
    {what?.sessionId && <p class="muted">Session {what.sessionId}</p>}
    <Labels record={record} what={what}>{isNew && <b class="new">New</b>}</Labels>
  </article>
);
