// What this desk reads: questions and alerts, opened with its key. What they say is kept in the memory of this page only.

import * as age from "../../../phone/app/age.js";
import { open } from "../../../phone/app/seal.js";
import * as store from "../../../phone/app/store.js";

globalThis.age = age; // the name by which seal.js knows the library

const read = new Map(); // what was opened, by id: {item, what} or {item, why}

// wasRead returns what was opened on this page of an item: {item, what} or {item, why}.
export const wasRead = (id) => read.get(id);

// forgetRead forgets what was opened.
export const forgetRead = () => read.clear();

// told opens alerts, but for those that were dismissed.
export async function told(alerts) {
  const { seen, gone } = await marks();
  const shown = await Promise.all(alerts.filter(({ id }) => !gone.includes(id)).map(opened));
  return shown.map((alert) => ({ ...alert, seen: seen.includes(alert.item.id) }));
}

// marks are the ids of the alerts that were seen and that were dismissed on this desk.
const marks = async () => ({ seen: [], gone: [], ...(await store.get("alerts")) });

const mostMarks = 1000; // of each kind: ten times what the daemon tells, so that the oldest are told no more

// mark notes that alerts were "seen", or that they are "gone": dismissed.
export const mark = (kind, ids) => store.keep("alerts", (kept) => ({ ...kept, [kind]: [...new Set([...(kept?.[kind] ?? []), ...ids])].slice(-mostMarks) }));

// opened opens an item once.
export async function opened(item) {
  const known = read.get(item.id);
  if (known && known.item.ciphertext === item.ciphertext) return known;
  const entry = await open(item).then((what) => ({ item, what }), (error) => ({ item, why: error.message }));
  read.set(item.id, entry);
  return entry;
}
