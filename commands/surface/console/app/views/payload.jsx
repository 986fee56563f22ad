// What a message says: as text, or as a tree of JSON. It is shown as what it is, and never as markup.

import { useState } from "preact/hooks";
import { bytes } from "../words.js";

const first = 20_000, more = 200_000; // characters of a text that are shown at once, and then with each wish for more
const few = 100; // members of an object or an array

export function Payload({ value }) {
  const json = typeof value !== "string", [asText, setAsText] = useState(false);
  const text = json ? JSON.stringify(value, null, 2) : value;
  const size = new Blob([json ? JSON.stringify(value) : value]).size;
  return (
    <section>
      <div class="bar">
        <h2>Payload</h2>
        <span class="muted">{bytes(size)}{json && <> · <button class="link" type="button" onClick={() => setAsText(!asText)}>{asText ? "as a tree" : "as text"}</button></>}</span>
      </div>
      {value === null ? <p class="muted">It says nothing: its payload is null.</p> : json && !asText ? <div class="tree"><Node value={value} open /></div> : <Text text={text} />}
    </section>
  );
}

function Text({ text }) {
  const [shown, setShown] = useState(first);
  return (
    <>
      <pre class="out long" dir="auto" tabIndex={0}>{text.slice(0, shown)}</pre>
      {text.length > shown && <p class="muted part">The first {shown.toLocaleString("en")} of {text.length.toLocaleString("en")} characters. <button class="link" type="button" onClick={() => setShown(shown + more)}>Show more</button></p>}
    </>
  );
}

// Node is one value, with its key if it has one.
function Node({ name, value, comma = "", open = false }) {
  const key = name === undefined ? null : <><span class="k">{JSON.stringify(name)}</span>: </>;
  if (value === null || typeof value !== "object") return <div>{key}<Leaf value={value} />{comma}</div>;
  return <Branch key_={key} value={value} comma={comma} begun={open} />;
}

function Branch({ key_, value, comma, begun }) {
  const array = Array.isArray(value), members = Object.entries(value);
  const [open, setOpen] = useState(begun || members.length <= 8), [shown, setShown] = useState(few);
  const [left, right] = array ? "[]" : "{}";
  if (!members.length) return <div>{key_}{left + right}{comma}</div>;
  const toggle = <button class="turn" type="button" aria-expanded={open} aria-label={open ? "Close" : "Open"} onClick={() => setOpen(!open)}>{open ? "▾" : "▸"}</button>;
  if (!open) return <div>{toggle}{key_}{left} <span class="faint">{members.length} {array ? "elements" : "members"}</span> {right}{comma}</div>;
  return (
    <div>
      {toggle}{key_}{left}
      {members.slice(0, shown).map(([name, inner], i) => <Node name={array ? undefined : name} value={inner} comma={i < members.length - 1 ? "," : ""} />)}
      {members.length > shown && <div><button class="link" type="button" onClick={() => setShown(shown + 10 * few)}>{(members.length - shown).toLocaleString("en")} more</button></div>}
      {right}{comma}
    </div>
  );
}

function Leaf({ value }) {
  const [all, setAll] = useState(false);
  const text = JSON.stringify(value);
  if (text.length > 2000 && !all) return <span class="s">{text.slice(0, 2000)}… <button class="link" type="button" onClick={() => setAll(true)}>all {text.length.toLocaleString("en")} characters</button></span>;
  return <span class={typeof value === "string" ? "s" : "n"}>{text}</span>;
}
