// The state of the page: the data stored on this device, and what happened to it while the page was open.
import * as pairing from "./pair.jsx";
import { open } from "./seal.js";
import * as store from "./store.js";

export const state = {
  code: pairing.takeCode(),
  device: undefined,
  records: [],
  putOff: [],
  prompt: undefined, // the browser's offer to install the app
  online: true,
  refreshed: "", // when the daemon last responded
  problem: "",
  fresh: false, // a newer version of the app has been installed
  sending: new Map(), // answers being sent, by question
  stay: new Set(), // questions that closed while they were on the screen
  drafts: new Map(), // answers that were taken back, by question
  news: new Set(), // alerts that appeared while the alerts view is open
};
export const read = new Map(); // the contents of records, by ID; each is decrypted once

// names maps the name of each view in the address to its title.
export const names = { questions: "Questions", alerts: "Alerts", history: "History", settings: "Settings" };
const nameOf = (hash) => (Object.hasOwn(names, hash) ? hash : hash.startsWith("a-") ? "alerts" : "questions");
export const view = () => nameOf(target());

// target returns the item in the address: a view, or the ID of a question or alert.
export function target() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return "";
  }
}

// announce makes screen readers read a text aloud, without moving the focus.
export function announce(words) {
  document.getElementById("said").textContent = words;
}

// load loads the stored data into the state. It announces new items, except on the first load.
export async function load() {
  const known = new Map(state.records.map((record) => [record.id, record]));
  const first = state.device === undefined;
  const before = state.device?.state;
  state.device = (await store.get("device")) ?? null;
  if (!state.device) for (const kept of [read, state.sending, state.stay, state.drafts, state.news]) kept.clear();
  if (before === "waiting" && state.device?.state === "active") announce("This device was approved.");
  state.putOff = (await store.get("putOff")) ?? [];
  state.refreshed = (await store.get("refreshed")) ?? "";
  const records = (await store.signals()).sort((a, b) => (a.createdAt < b.createdAt ? 1 : -1));
  for (const record of records) {
    if (read.get(record.id)?.ciphertext !== record.ciphertext || !read.has(record.id)) read.set(record.id, await said(record));
    const before = known.get(record.id);
    if (before?.status === "pending" && record.status !== "pending") state.stay.add(record.id);
    if (!before && !first && record.status === "pending") tell(record);
  }
  state.records = records;
}

const said = (record) =>
  open(record).then(
    (what) => ({ ciphertext: record.ciphertext, what }),
    (error) => ({ ciphertext: record.ciphertext, why: error.message }),
  );

function tell(record) {
  const from = read.get(record.id).what?.from;
  announce(record.kind === "alert" ? `New alert${from ? ` from ${from}` : ""}` : `New question${from ? ` from ${from}` : ""}`);
}

export const isUnread = (record) => record.kind === "alert" && !record.read;
