// Keyboard shortcuts: g and a letter opens a view, ? lists all shortcuts, and each view adds its own.

import { useLayoutEffect } from "preact/hooks";
import { signal } from "@preact/signals";
import { go, places } from "./route.js";

// listed is the list of shortcuts of the open view that ? shows: [keys, effect].
export const listed = signal([]);
export const keysOpen = signal(false);

const views = Object.fromEntries(places.map(({ key, address }) => [key, address]));
const handlers = new Set();
let after = null; // when g was pressed, if the letter has not been pressed yet

const typing = (element) => element.closest?.("input, textarea, select, [contenteditable]");

addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.metaKey || event.ctrlKey || event.altKey) return;
  if (typing(event.target)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (document.querySelector("dialog[open]")) return;
  if (after && Date.now() - after < 2000 && views[event.key]) {
    after = null;
    event.preventDefault();
    go(views[event.key]);
    return;
  }
  after = event.key === "g" ? Date.now() : null;
  if (event.key === "?") keysOpen.value = true;
  for (const keys of handlers) {
    const f = keys[event.key];
    if (f && f(event) !== false) event.preventDefault();
  }
});

// useKeys binds keys while a view is open: {j: f}. what is the list that ? shows: [["j k", "move"]].
export function useKeys(keys, what = []) {
  useLayoutEffect(() => {
    handlers.add(keys);
    return () => handlers.delete(keys);
  });
  useLayoutEffect(() => {
    if (!what.length) return;
    listed.value = what;
    return () => (listed.value = []);
  }, []);
}
