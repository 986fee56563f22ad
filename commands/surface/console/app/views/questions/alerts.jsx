// What agents tell the user, on a paired desk: alike alerts in one card, those that were seen folded, until they are dismissed.

import { useEffect, useRef, useState } from "preact/hooks";
import { alertCard, groups } from "../../../../look/alerts.js";
import { make } from "../../../../look/dom.js";
import { fill } from "../../../../look/list.js";
import { icon } from "../../../../phone/app/dom.js";
import { mark } from "../../desk.js";
import { Problem } from "../../parts.jsx";
import { to } from "../../route.js";
import { clock } from "../../time.js";

export function Alerts({ desk }) {
  const box = useRef(), news = useRef(new Set()), [gone, setGone] = useState(new Set()), [failure, setFailure] = useState(null);
  const list = (desk.alerts ?? []).filter(({ item }) => !gone.has(item.id));
  const when = (at) => clock(at, { seconds: false });
  const times = list.map(({ item }) => when(item.createdAt)); // here, so that they are shown anew when they are wanted in UTC
  useEffect(() => {
    if (!list.length) return;
    const unseen = list.filter((alert) => !alert.seen).map(({ item }) => item.id);
    for (const id of unseen) news.current.add(id); // and so they stay while this view is open
    if (unseen.length) mark("seen", unseen).catch(setFailure);
    const isNew = ({ item }) => news.current.has(item.id);
    fill(box.current, groups(list, ({ what }) => what).map(({ key, list }) => ({
      key, signature: JSON.stringify([list.map((alert) => [alert.item.id, when(alert.item.createdAt), isNew(alert), !alert.what])]),
      build: () => alertCard(list, {
        what: list[0].what, heading: "h3", icon, from: agent(list[0].what), shows: isNew, told: (alert) => told(alert, when, isNew(alert)),
        dismiss: () => dismiss(list.map(({ item }) => item.id)),
      }),
    })));
  }, [desk.alerts, gone, times.join()]);
  const dismiss = (ids) => mark("gone", ids).then(() => setGone((before) => new Set([...before, ...ids])), setFailure);
  return list.length ? <section class="told-here"><div class="bar"><h2>Alerts</h2></div><div ref={box} /><Problem failure={failure} /></section> : null;
}

const agent = (what) => what && make("a", { class: "agent", href: to(["agents", what.from]) }, what.from);

const told = ({ item, what, why }, when, isNew) => make("article", { class: "told" },
  make("p", { class: "message" }, what ? what.message : `This cannot be read on this desk: ${why}.`),
  what?.context && make("p", { class: "context" }, what.context),
  make("p", { class: "labels" },
    isNew && make("b", { class: "new" }, "New"),
    what?.priority === "high" && make("span", {}, "High priority"),
    !item.encrypted && make("span", {}, "Not encrypted"),
    make("time", { datetime: item.createdAt, title: item.createdAt }, when(item.createdAt))));
