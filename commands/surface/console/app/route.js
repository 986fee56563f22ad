// Navigation. The address of the page determines the view, so that the Back button works and a person can share an
// address.

import { signal, batch } from "@preact/signals";

const read = () => ({
  path: location.pathname.split("/").filter(Boolean).map(decoded),
  query: Object.fromEntries(new URLSearchParams(location.search)),
});

// The browser would resolve the names . and .. as path steps, even if they are percent-encoded. encoded puts a ~
// before them, and before names that already have that form.
const dots = /^~*\.\.?$/;
const encoded = (part) => encodeURIComponent(dots.test(part) ? `~${part}` : part);

// decoded reverses encoded. If a part of a path is not valid, because somebody typed a %, decoded returns it
// unchanged.
function decoded(part) {
  try {
    const name = decodeURIComponent(part);
    return dots.test(name) ? name.slice(1) : name;
  } catch {
    return part;
  }
}

// route is the current address as {path, query}: /messages/m-1?type=note is {path: ["messages", "m-1"], query: {type:
// "note"}}.
export const route = signal(read());

// to builds an address of the page. It leaves out query values that are "", null, or undefined.
export function to(path, query = {}) {
  const kept = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const address = "/" + path.map(encoded).join("/");
  return kept.length ? `${address}?${new URLSearchParams(kept)}` : address;
}

// places is the list of views in the order of the rail: {path, word, key, address}. path is the first part of the
// address. The keys g and `key` open the view.
export const places = [
  ["", "Now", "n"], ["messages", "Messages", "m"], ["threads", "Threads", "t"], ["agents", "Agents", "a"], ["questions", "Questions", "q"],
  ["operations", "Operations", "o"], ["audit", "Audit", "u"],
].map(([path, word, key]) => ({ path, word, key, address: `/${path}` }));

// go opens an address of the page. With replace, the address replaces the current entry in the browser's history.
export function go(address, { replace = false } = {}) {
  if (!replace) dispatchEvent(new Event("leave")); // listeners still see the old address and scroll position
  history[replace ? "replaceState" : "pushState"](null, "", address);
  batch(() => (route.value = read()));
  if (!replace) scrollTo(0, 0);
}

// setQuery changes part of the query of the current address, as a filter does, without a new entry in the history.
export const setQuery = (changes) => go(to(route.value.path, { ...route.value.query, ...changes }), { replace: true });

addEventListener("popstate", () => (route.value = read()));

// A click on a link within the page does not load the page again.
addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  if (link.target || link.hasAttribute("download") || link.origin !== location.origin || link.getAttribute("href").startsWith("#")) return;
  event.preventDefault();
  go(link.pathname + link.search);
});
