// The alerts from agents to the user, on a paired desk. One card contains similar alerts. Alerts that were seen are
// folded, until they are dismissed.

import { useEffect, useRef, useState } from "preact/hooks";
import { AlertCard } from "../../../../look/alert-card.jsx";
import { groups } from "../../../../look/alerts.js";
import { Icon } from "../../../../phone/app/icon.jsx";
import { mark } from "../../desk/reading.js";
import { Problem } from "../../parts.jsx";
import { to } from "../../route.js";
import { clock } from "../../time.js";

export function Alerts({ desk }) {
  const news = useRef(new Set()), [gone, setGone] = useState(new Set()), [failure, setFailure] = useState(null);
  const list = (desk.alerts ?? []).filter(({ item }) => !gone.has(item.id));
  const unseen = list.filter((alert) => !alert.seen).map(({ item }) => item.id);
  for (const id of unseen) news.current.add(id); // alerts stay new while this view is open
  useEffect(() => {
    if (unseen.length) mark("seen", unseen).catch(setFailure);
  }, [unseen.join()]);
  if (!list.length) return null;
  const isNew = ({ item }) => news.current.has(item.id);
  const dismiss = (ids) => mark("gone", ids).then(() => setGone((before) => new Set([...before, ...ids])), setFailure);
  return (
    <section class="told-here">
      <div class="bar"><h2>Alerts</h2></div>
      <div>{groups(list, ({ what }) => what).map(({ key, list }) => (
        <AlertCard key={key} list={list} what={list[0].what} heading="h3" Icon={Icon}
          from={<Agent what={list[0].what} />} shows={isNew}
          told={(alert) => <Told key={alert.item.id} alert={alert} isNew={isNew(alert)} />}
          dismiss={() => dismiss(list.map(({ item }) => item.id))} />
      ))}</div>
      <Problem failure={failure} />
    </section>
  );
}

const Agent = ({ what }) => what && <a class="agent" href={to(["agents", what.from])}>{what.from}</a>;

const Told = ({ alert: { item, what, why }, isNew }) => (
  <article class="told">
    <p class="message">{what ? what.message : `This desk cannot read the alert: ${why}.`}</p>
    {what?.context && <p class="context">{what.context}</p>}
    <p class="labels">
      {isNew && <b class="new">New</b>}
      {what?.priority === "high" && <span>High priority</span>}
      {!item.encrypted && <span>Not encrypted</span>}
      <time datetime={item.createdAt} title={item.createdAt}>{clock(item.createdAt, { seconds: false })}</time>
    </p>
  </article>
);
