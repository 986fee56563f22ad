// The payload of a message, as text or as a JSON tree. It is never interpreted as markup.

import { useMemo, useState } from "preact/hooks";
import { route } from "../route.js";
import { bytes } from "../words.js";

const first = 20_000, more = 200_000; // characters of a text that are shown first, and that are added on each request
const few = 100; // members of an object or an array
// A tree initially opens this many levels, with this many branches per level, and again as many after each click.
const levels = 8, share = 200;
const deepest = 64; // levels of a tree; a message may have a thousand, too many nested elements for a browser to draw

export function Payload({ value }) {
  const json = typeof value !== "string", [asText, setAsText] = useState(route.value.query.as === "text");
  const size = useMemo(() => new Blob([json ? JSON.stringify(value) : value]).size, [value]);
  return (
    <section>
      <div class="bar">
        <h2>Payload</h2>
        <span class="muted">{bytes(size)}{json && <> · <button class="link" type="button" onClick={() => setAsText(!asText)}>{asText ? "as a tree" : "as text"}</button></>}</span>
      </div>
      {value === null ? <p class="muted">The payload is null.</p> : !json ? <Text text={value} /> : asText ? <Written value={value} /> : <div class="tree"><Node value={value} level={0} open /></div>}
    </section>
  );
}

// Written renders JSON as text.
export function Written({ value }) {
  // Indenting a deep value could take a gigabyte.
  const text = useMemo(() => JSON.stringify(value, null, isDeeper(value, 20) ? 0 : 2), [value]);
  return <Text text={text} />;
}

// isDeeper reports whether a value has more than n levels.
const isDeeper = (value, n) => value !== null && typeof value === "object" && (n === 0 || Object.values(value).some((inner) => isDeeper(inner, n - 1)));

function Text({ text }) {
  const [shown, setShown] = useState(first);
  return (
    <>
      <pre class="out long" dir="auto" tabIndex={0}>{text.slice(0, shown)}</pre>
      {text.length > shown && <p class="muted part">The first {shown.toLocaleString("en")} of {text.length.toLocaleString("en")} characters. <button class="link" type="button" onClick={() => setShown(shown + more)}>Show more</button></p>}
    </>
  );
}

// Node renders one value, with its key if it has one. level is its depth in the tree. opens limits how much of the
// value opens by itself: the levels above opens.until, and the number of branches opens.share.
function Node({ name, value, comma = "", level, opens = { until: levels, share }, open = false }) {
  const key = name === undefined ? null : <><span class="k">{JSON.stringify(name)}</span>: </>;
  if (value === null || typeof value !== "object" || JSON.isRawJSON?.(value)) return <div>{key}<Leaf value={value} />{comma}</div>;
  return <Branch key_={key} value={value} comma={comma} level={level} opens={opens} begun={open} />;
}

function Branch({ key_, value, comma, level, opens: before, begun }) {
  const array = Array.isArray(value), members = Object.entries(value);
  const [open, setOpen] = useState(begun || (members.length <= 8 && level < before.until && before.share >= 1)), [shown, setShown] = useState(few), [opens, setOpens] = useState(before);
  const [left, right] = array ? "[]" : "{}";
  if (!members.length) return <div>{key_}{left + right}{comma}</div>;
  const closed = <>{key_}{left} <span class="faint">{members.length} {array ? "elements" : "members"}</span> {right}{comma}</>;
  if (level >= deepest) return <div>{closed} <span class="faint">shown only in the text view</span></div>;
  const press = () => {
    setOpen(!open);
    setOpens({ until: level + levels, share });
  };
  const toggle = <button class="turn" type="button" aria-expanded={open} aria-label={open ? "Close" : "Open"} onClick={press}>{open ? "▾" : "▸"}</button>;
  if (!open) return <div>{toggle}{closed}</div>;
  const inner = { ...opens, share: opens.share / Math.min(members.length, few) };
  return (
    <div>
      {toggle}{key_}{left}
      {members.slice(0, shown).map(([name, member], i) => <Node name={array ? undefined : name} value={member} comma={i < members.length - 1 ? "," : ""} level={level + 1} opens={inner} />)}
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
