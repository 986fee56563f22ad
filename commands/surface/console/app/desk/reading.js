// The questions and alerts that this desk decrypts with its key. The plain text stays in the memory of this page.

import * as age from "../../../phone/app/age.js";
import { open } from "../../../phone/app/seal.js";
import * as store from "../../../phone/app/store.js";

globalThis.age = age; // seal.js uses the library under this name

const read = new Map(); // the opened items by ID: {item, what} or {item, why}

// wasRead returns an item that this page has opened, as {item, what}, or as {item, why} if the item could not be
// read.
export const wasRead = (id) => read.get(id);

// forgetRead removes all opened items.
export const forgetRead = () => read.clear();

// told opens the alerts that were not dismissed.
export async function told(alerts) {
  const { seen, gone } = await marks();
  const shown = await Promise.all(alerts.filter(({ id }) => !gone.includes(id)).map(opened));
  return shown.map((alert) => ({ ...alert, seen: seen.includes(alert.item.id) }));
}

// marks returns the IDs of the alerts that were seen and of those that were dismissed on this desk.
const marks = async () => ({ seen: [], gone: [], ...(await store.get("alerts")) });

// mostMarks is the maximum number of IDs of each kind. It is ten times the number of alerts that the daemon returns,
// so the daemon no longer returns an alert whose mark is dropped.
const mostMarks = 1000;

// mark records that alerts were "seen" or dismissed ("gone").
export const mark = (kind, ids) => store.keep("alerts", (kept) => ({ ...kept, [kind]: [...new Set([...(kept?.[kind] ?? []), ...ids])].slice(-mostMarks) }));

// opened returns an item with its contents. It decrypts each item only once.
export async function opened(item) {
  const known = read.get(item.id);
  if (known && known.item.ciphertext === item.ciphertext) return known;
  const entry = await open(item).then((what) => ({ item, what }), (error) => ({ item, why: error.message }));
  read.set(item.id, entry);
  return entry;
}
