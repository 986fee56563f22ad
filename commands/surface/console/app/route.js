// Where one is: the address of the page says it, so that Back works and an address can be handed on.

import { signal, batch } from "@preact/signals";

const read = () => ({
  path: location.pathname.split("/").filter(Boolean).map(decoded),
  query: Object.fromEntries(new URLSearchParams(location.search)),
});

// The names . and .. would be steps to another address, however they are encoded: they have a ~ before them, and so has what looks like that.
const dots = /^~*\.\.?$/;
const encoded = (part) => encodeURIComponent(dots.test(part) ? `~${part}` : part);

// decoded is a part of a path as it was before it was encoded. Where that cannot be, since somebody typed a %, it is what stands there.
function decoded(part) {
  try {
    const name = decodeURIComponent(part);
    return dots.test(name) ? name.slice(1) : name;
  } catch {
    return part;
  }
}

// route is {path, query}: /messages/m-1?type=note is {path: ["messages", "m-1"], query: {type: "note"}}.
export const route = signal(read());

// to builds an address of the page. What is "" or undefined in the query is left out.
export function to(path, query = {}) {
  const kept = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const address = "/" + path.map(encoded).join("/");
  return kept.length ? `${address}?${new URLSearchParams(kept)}` : address;
}

// places are the views, as the rail lists them: {path, word, key, address}, of which path is the first part of the address. g and the key goes there.
export const places = [
  ["", "Now", "n"], ["messages", "Messages", "m"], ["threads", "Threads", "t"], ["agents", "Agents", "a"], ["questions", "Questions", "q"],
  ["operations", "Operations", "o"], ["audit", "Audit", "u"],
].map(([path, word, key]) => ({ path, word, key, address: `/${path}` }));

// go opens an address of the page; with replace it takes the place of the present one in the history.
export function go(address, { replace = false } = {}) {
  if (!replace) dispatchEvent(new Event("leave")); // while the address and the place in the page are still those of what is left
  history[replace ? "replaceState" : "pushState"](null, "", address);
  batch(() => (route.value = read()));
  if (!replace) scrollTo(0, 0);
}

// setQuery changes some of the query of the present address, as a filter does, and makes no step in the history.
export const setQuery = (changes) => go(to(route.value.path, { ...route.value.query, ...changes }), { replace: true });

addEventListener("popstate", () => (route.value = read()));

// Links within the page are followed without loading it anew.
addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  if (link.target || link.hasAttribute("download") || link.origin !== location.origin || link.getAttribute("href").startsWith("#")) return;
  event.preventDefault();
  go(link.pathname + link.search);
});
