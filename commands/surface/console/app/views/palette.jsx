// The palette: a person types an ID, the name of an agent or a thread, or a word, and goes there.

import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { run } from "../api.js";
import { useKeys } from "../keys.js";
import { mayAdminister } from "../me.js";
import { go, places, route, to } from "../route.js";
import { Icon } from "../parts.jsx";

const open = signal(false);

// Find renders the box in the top bar that opens the palette. The key / also opens the palette, except in Messages,
// which has a filter of its own.
export function Find() {
  useKeys({ "/": () => (route.value.path[0] === "messages" && route.value.path.length === 1 ? false : ((open.value = true), true)) });
  return (
    <>
      <button class="find" type="button" aria-label="Find an ID, an agent, or a word" onClick={() => (open.value = true)}><Icon name="search" /><span>Find an ID, an agent, or a word</span><kbd aria-hidden="true">/</kbd></button>
      {open.value && <Palette />}
    </>
  );
}

function Palette() {
  const dialog = useRef(), [text, setText] = useState(""), [at, setAt] = useState(0);
  const choices = useChoices(text.trim()), marked = Math.min(at, choices.length - 1);
  useEffect(() => dialog.current.showModal(), []);
  useEffect(() => document.getElementById(`choice-${marked}`)?.scrollIntoView({ block: "nearest" }), [marked]);
  const leave = () => (open.value = false);
  const take = (choice) => {
    if (!choice) return;
    leave();
    go(choice.href);
  };
  const key = (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by && choices.length) setAt((marked + by + choices.length) % choices.length);
    else if (event.key === "Enter") take(choices[marked]);
    else if (event.key === "Escape") dialog.current.close();
    else return;
    event.preventDefault();
  };
  return (
    <dialog class="palette" ref={dialog} aria-label="Find" onClose={leave} onClick={(event) => event.target === dialog.current && leave()}>
      <label class="ask-for"><Icon name="search" />
        <input type="text" role="combobox" aria-label="What to find" aria-expanded="true" aria-controls="choices" aria-activedescendant={choices.length ? `choice-${marked}` : undefined} autocomplete="off" spellcheck={false}
          placeholder="An ID, an agent, a thread, or a word" value={text} onKeyDown={key} onInput={(event) => (setText(event.target.value), setAt(0))} />
        <kbd>Esc</kbd>
      </label>
      <ul id="choices" role="listbox" aria-label="Results">
        {choices.map((choice, i) => (
          <li id={`choice-${i}`} key={choice.href + choice.kind} role="option" aria-selected={i === marked} onPointerMove={() => setAt(i)} onClick={() => take(choice)}>
            <span class="muted">{choice.kind}</span><b class="cut">{choice.name}</b>{choice.says && <span class="muted cut">{choice.says}</span>}
          </li>
        ))}
      </ul>
    </dialog>
  );
}

// useChoices returns the matches for a text: views, agents, and threads immediately, and the results of a search
// after the person stops typing.
function useChoices(text) {
  const [agents, setAgents] = useState([]), [threads, setThreads] = useState([]), [found, setFound] = useState({ text: "", list: [] });
  useEffect(() => {
    run("agent_list").then((r) => setAgents(r.agents.filter((a) => !a.built_in)), () => {});
    run("list_threads", { limit: 200, all: mayAdminister() }).then((r) => setThreads(r.threads), () => {});
  }, []);
  useEffect(() => {
    if (!text) return;
    const stop = new AbortController();
    const timer = setTimeout(() => lookFor(text, stop.signal).then((list) => stop.signal.aborted || setFound({ text, list })), 200);
    return () => (clearTimeout(timer), stop.abort());
  }, [text]);
  const has = (name) => name.toLowerCase().includes(text.toLowerCase()), first = (list) => list.sort((a, b) => b.name.startsWith(text) - a.name.startsWith(text)).slice(0, 7);
  const here = [
    ...first(agents.filter((a) => has(a.name) || (text && has(a.role))).map((a) => ({ kind: "Agent", name: a.name, says: a.role, href: to(["agents", a.name]) }))),
    ...first(threads.filter((t) => text && (has(t.name) || has(t.thread_id))).map((t) => ({ kind: "Thread", name: t.name, says: t.summary || t.participants.join(", "), href: to(["threads", t.thread_id]) }))),
    ...places.filter(({ word }) => has(word)).map(({ word, address }) => ({ kind: "View", name: word, href: address })),
  ];
  if (!text) return here;
  const words = { kind: "Search", name: `Messages that contain “${text}”`, href: to(["messages"], { text }) };
  return [...(found.text === text ? found.list.filter((one) => one.sure) : []), ...here, words, ...(found.text === text ? found.list.filter((one) => !one.sure) : [])];
}

const failed = () => null;

// lookFor searches for the message with an ID, and for the newest messages that contain a text.
async function lookFor(text, signal) {
  const id = !/\s/.test(text) && text.length > 3;
  const [named, hits] = await Promise.all([
    id ? run("why", { message_id: text }, { signal }).catch(failed) : null,
    run("messages_list", { text: text.slice(0, 1024), limit: 5 }, { signal }).catch(failed),
  ]);
  const list = [];
  if (named?.reasons?.length) {
    const one = named.reasons[0];
    list.push({ kind: "Message", name: text, says: `${one.sender} to ${one.recipient}: ${one.status}`, href: to(["messages", text]), sure: true });
  }
  for (const hit of hits?.messages ?? []) list.push({ kind: "Message", name: `${hit.sender} to ${hit.recipient}`, says: hit.says, href: to(["messages", hit.message_id]) });
  return list;
}
