// The questions and alerts on this device, shared by the page and the service worker. A record is an item of the
// daemon, {id, kind, encrypted, ciphertext or text, status, createdAt, expiresAt}, with these additional fields:
//   answer   the answer given on this device: {option}, {option, text}, or {text}
//   queued   the request body with that answer, until the daemon has accepted it
//   due      the answer can be taken back until this time (milliseconds since 1970), and is not sent before it
//   tried    an attempt to send the answer ended without a response, so the answer may have arrived
//   mine     the daemon accepted the answer of this device
//   problem  why the daemon did not accept the answer; the question is still open
//   rung     a notification was shown; a push that is delivered again shows no second notification
//   reopened the daemon accepted the answer, but the asker refused it: the question is open again
//   endedAt  when this device learned that the question is closed
//   read     the alert was on the screen
//   gone     the alert was dismissed: only the history still contains it
import { Offline, call } from "./api.js";
import { Unreadable, open, sealAnswer } from "./seal.js";
import * as store from "./store.js";

const fields = ["id", "kind", "encrypted", "ciphertext", "text", "status", "createdAt", "expiresAt"];

// merge returns the new record after the daemon returned item in the response to a request made at asked (ms).
function merge(record, item, asked) {
  const next = { ...record };
  for (const field of fields) if (item[field] !== undefined) next[field] = item[field];
  if (item.kind !== "question" || next.status === record?.status) return next;
  if (next.status !== "pending") return ended(next, next.status);
  // The daemon sent this status before it received the answer from this device.
  if (record && Date.parse(record.endedAt) >= asked) return record;
  if (record?.mine) next.reopened = true;
  delete next.answer;
  delete next.mine;
  delete next.endedAt;
  delete next.rung;
  return next;
}

// ended returns the record of a question that is now closed.
export function ended(record, status) {
  const { queued, due, ...rest } = record;
  return { ...rest, status, endedAt: record.endedAt ?? new Date().toISOString() };
}

// learn stores an item that the daemon returned to the device with the ID owner.
const learn = (item, asked, owner) => store.change(item.id, (record) => merge(record, item, asked), owner);

const over = ({ kind, status }) => kind === "alert" || status !== "pending";

// longest is the maximum number of closed items that are kept. remembered is the maximum number of removed items
// whose IDs are kept. New items replace the oldest.
const longest = 500;
const remembered = 1000;

// remove removes closed items and records their removal, so that neither the daemon nor a repeated push brings them
// back. IDs start with a time, so for the oldest items it is enough to keep the last ID.
const remove = (records) => records.length > 0 && apart(async () => {
  await store.keep("removed", ({ ids = [], before = "" } = {}) => {
    const all = [...ids, ...records.map(({ id }) => id.slice(2))].sort();
    const cut = all.splice(0, Math.max(0, all.length - remembered));
    return { ids: all, before: [before, ...cut].sort().at(-1) };
  });
  for (const { id } of records) await store.change(id, (now) => (now && over(now) ? null : undefined));
});

// apart keeps a refresh, which uses a response from a moment ago, from bringing back items that are being removed.
const apart = (work) => navigator.locks.request("mailroom-signals", work);

// removals returns a function that reports whether the item with an ID was removed on this device.
async function removals() {
  const { ids = [], before = "" } = (await store.get("removed")) ?? {};
  const known = new Set(ids);
  return (id) => known.has(id.slice(2)) || id.slice(2) <= before;
}

// prune removes the oldest closed items beyond the maximum number.
async function prune() {
  const old = (await store.signals()).filter(over);
  old.sort((a, b) => (a.createdAt < b.createdAt ? 1 : -1));
  await remove(old.slice(longest));
}

// clear removes all closed items.
export const clear = async () => remove((await store.signals()).filter(over));

// refresh requests the open items from the daemon, and the outcome of the questions that are no longer open.
export async function refresh() {
  const asked = Date.now();
  const owner = (await store.get("device"))?.id;
  const { questions, alerts } = await call("GET", "/api/signals");
  const there = new Set([...questions, ...alerts].map(({ id }) => id));
  await apart(async () => {
    const removed = await removals();
    for (const item of [...questions, ...alerts]) {
      if (item.kind === "question" || !removed(item.id)) await learn(item, asked, owner);
    }
  });
  for (const { id, kind, status } of await store.signals()) {
    if (kind === "question" && status === "pending" && !there.has(id)) await look(id, owner);
  }
  await prune();
}

// ask requests one item from the daemon.
export const ask = (id) => call("GET", `/api/signals/${encodeURIComponent(id)}`);

// look requests the outcome of a question from the daemon, and stores it.
async function look(id, owner) {
  const asked = Date.now();
  try {
    await learn(await ask(id), asked, owner);
  } catch (error) {
    if (error.code !== 404) throw error;
    await store.change(id, (record) => record && ended(record, "gone"), owner);
  }
}

// news stores an item that was pushed to the device with the ID owner, so that the person can read and answer it even
// if the daemon cannot be reached, and shows it. what is the contents of the item. A push service can deliver a push
// late and more than once, so news shows each item once, and shows no closed items. A question that was closed can be
// open again if its answer was refused, but only if the daemon itself confirms that. news reports whether the item
// was shown.
export async function news(item, what, owner, show) {
  if (Date.parse(what.expiresAt) < Date.now()) return false;
  const known = await store.signal(item.id);
  if (known ? known.kind === "question" && known.status !== "pending" : (await removals())(item.id)) {
    const asked = Date.now();
    const now = item.kind === "question" && (await ask(item.id));
    if (now?.status !== "pending") return false;
    await learn(now, asked, owner);
  }
  return showing(async () => {
    let first = false;
    await store.change(item.id, (record) => {
      const next = record ?? { status: "pending", createdAt: what.createdAt, expiresAt: what.expiresAt, ...item };
      first = !next.rung && !next.queued && (item.kind === "alert" || next.status === "pending");
      return first ? { ...next, rung: true } : undefined;
    }, owner);
    if (first) await show();
    return first;
  });
}

// showing runs work that looks up, shows, or removes notifications, one task at a time.
export const showing = (work) => navigator.locks.request("mailroom-notifications", work);

// forget removes all data and all notifications of this device.
export const forget = (registration) =>
  showing(async () => {
    await store.forget();
    await close(registration);
  });

async function close(registration, filter) {
  for (const shown of (await registration?.getNotifications?.(filter)) ?? []) shown.close();
}

// hold stores an answer, {option}, {option, text}, or {text}, and returns the record. The answer is not sent before
// the time due (milliseconds since 1970). An answer that was given before is not replaced, because it may have
// arrived. hold throws Unreadable if the question cannot be read.
export async function hold(id, given, due) {
  const record = await store.signal(id);
  if (!record) throw new Unreadable("this question is not on this device");
  const body = await sealAnswer(record, await open(record), given);
  const held = await store.change(id, (now) => (now?.status === "pending" && !now.queued ? { ...unanswered(now), answer: given, queued: body, due } : undefined));
  await hush(id);
  return held;
}

// answer stores an answer, tries to send it immediately, and returns the record. If the record still has `queued`,
// the answer will be sent later.
export async function answer(id, given) {
  await hold(id, given, 0);
  return send(id);
}

// release tries to send a held answer before its time, and returns the record. If the record still has `queued`,
// there was no connection, and the answer will be sent later.
export async function release(id) {
  await store.change(id, (record) => (record?.due ? { ...record, due: 0 } : undefined));
  return send(id);
}

// withdraw takes back an answer that was not sent.
export const withdraw = (id) =>
  alone(() => store.change(id, (record) => (record?.queued && !record.tried ? unanswered(record) : undefined)));

function unanswered({ answer, queued, due, tried, problem, reopened, ...rest }) {
  return rest;
}

// flush sends the waiting answers, except those that can still be taken back. It reports whether there were any.
export async function flush() {
  let any = false;
  for (const { id, queued } of await store.signals()) if (queued) await send(id, () => (any = true));
  return any;
}

// flushAll waits until no answer can be taken back any more, and then sends all waiting answers. It reports whether
// there were any.
export async function flushAll() {
  for (;;) {
    const due = (await store.signals()).map((record) => (record.queued && record.due) || 0);
    const left = Math.max(0, ...due) - Date.now();
    if (left <= 0) return flush();
    await new Promise((later) => setTimeout(later, left));
  }
}

// alone keeps the page and the service worker from sending the same answer twice. The second would look like an
// answer that came too late.
const alone = (work) => navigator.locks.request("mailroom-answers", work);

// send sends an answer that waits and can no longer be taken back, and returns the record. It calls starting() before
// it sends the answer.
const send = (id, starting = () => {}) =>
  alone(async () => {
    const record = await store.signal(id);
    if (!record?.queued || record.due > Date.now()) return record;
    starting();
    return post(id, record.queued);
  });

async function post(id, body) {
  try {
    await call("POST", `/api/questions/${encodeURIComponent(id)}/answer`, body);
  } catch (error) {
    return store.change(id, (now) => now && refused(now, error));
  }
  return store.change(id, (now) => now && { ...ended(now, "answered"), mine: true });
}

// hush removes the notification of an alert, or of a question that was answered here. The buttons of the notification
// must not answer the question again.
const hush = (id) =>
  showing(async () => close(globalThis.registration ?? (await navigator.serviceWorker?.getRegistration()), { tag: id }));

// see records that an alert was read, and removes its notification.
export async function see(id) {
  await store.change(id, (record) => record && { ...record, read: true });
  await hush(id);
}

// dismiss removes alerts from the list. The history keeps them.
export async function dismiss(ids) {
  for (const id of ids) await store.change(id, (record) => record && { ...record, read: true, gone: true });
}

function refused(record, error) {
  // An answer that the daemon did not look at stays in the queue. It can be taken back if it certainly never left this
  // device, and that is certain only if the browser reports that it has no network.
  if (error.code === 429 || (error instanceof Offline && !navigator.onLine)) return undefined;
  if (error instanceof Offline) return { ...record, tried: true };
  if (error.code === 409) return ended(record, error.answer.status ?? "answered");
  if (error.code === 404) return ended(record, "gone");
  return { ...unanswered(record), problem: error.message };
}
