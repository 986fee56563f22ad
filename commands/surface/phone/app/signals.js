// What happens to questions and alerts on this device, shared by the page and the service worker. A record is an item
// of the daemon {id, kind, encrypted, ciphertext or text, status, createdAt, expiresAt} and besides:
//   answer   what was answered here: {option}, {option, text} or {text}
//   queued   the request body with that answer, as long as the daemon has not taken it
//   due      until then (milliseconds since 1970) it can be taken back, and is not sent
//   tried    a try to send it ended without an answer, so it may have arrived
//   mine     the daemon took the answer of this device
//   problem  why the daemon did not take the answer; the question is still open
//   rung     a notification was shown for it; a push that is delivered again rings no second time
//   reopened the answer was taken, but the asker refused it: the question is open again
//   endedAt  when this device learned that the question is no longer open
//   read     the alert was on the screen
//   gone     the alert was dismissed: only the history still has it
import { Offline, call } from "./api.js";
import { Unreadable, open, sealAnswer } from "./seal.js";
import * as store from "./store.js";

const fields = ["id", "kind", "encrypted", "ciphertext", "text", "status", "createdAt", "expiresAt"];

// merge makes the record that follows when the daemon said item in an answer to a request made at asked (ms).
function merge(record, item, asked) {
  const next = { ...record };
  for (const field of fields) if (item[field] !== undefined) next[field] = item[field];
  if (item.kind !== "question" || next.status === record?.status) return next;
  if (next.status !== "pending") return ended(next, next.status);
  // It said so before it knew of the answer that was given since.
  if (record && Date.parse(record.endedAt) >= asked) return record;
  if (record?.mine) next.reopened = true;
  delete next.answer;
  delete next.mine;
  delete next.endedAt;
  delete next.rung;
  return next;
}

// ended makes the record of a question that is no longer open.
export function ended(record, status) {
  const { queued, due, ...rest } = record;
  return { ...rest, status, endedAt: record.endedAt ?? new Date().toISOString() };
}

// learn keeps what the daemon said about one item to the device with the id owner.
const learn = (item, asked, owner) => store.change(item.id, (record) => merge(record, item, asked), owner);

const over = ({ kind, status }) => kind === "alert" || status !== "pending";

// longest is how much of what is over is kept, and remembered how many of those that were removed are known by their
// ids: the oldest make room for new ones.
const longest = 500;
const remembered = 1000;

// remove removes what is over, and remembers that: neither the daemon nor a push that is delivered again brings it back.
// Ids are times first, so of the oldest it is enough to remember when they end.
const remove = (records) => records.length > 0 && apart(async () => {
  await store.keep("removed", ({ ids = [], before = "" } = {}) => {
    const all = [...ids, ...records.map(({ id }) => id.slice(2))].sort();
    const cut = all.splice(0, Math.max(0, all.length - remembered));
    return { ids: all, before: [before, ...cut].sort().at(-1) };
  });
  for (const { id } of records) await store.change(id, (now) => (now && over(now) ? null : undefined));
});

// apart keeps a refresh, which takes what it was told a moment ago, from bringing back what is being removed.
const apart = (work) => navigator.locks.request("mailroom-signals", work);

// removals returns what says whether the item with an id was removed here.
async function removals() {
  const { ids = [], before = "" } = (await store.get("removed")) ?? {};
  const known = new Set(ids);
  return (id) => known.has(id.slice(2)) || id.slice(2) <= before;
}

// prune removes what is over and too old to be kept.
async function prune() {
  const old = (await store.signals()).filter(over);
  old.sort((a, b) => (a.createdAt < b.createdAt ? 1 : -1));
  await remove(old.slice(longest));
}

// clear removes what is over.
export const clear = async () => remove((await store.signals()).filter(over));

// refresh asks the daemon for what is open, and for what became of the questions that no longer are.
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

// ask asks the daemon about one item.
export const ask = (id) => call("GET", `/api/signals/${encodeURIComponent(id)}`);

// look asks the daemon what became of a question, and keeps the answer.
async function look(id, owner) {
  const asked = Date.now();
  try {
    await learn(await ask(id), asked, owner);
  } catch (error) {
    if (error.code !== 404) throw error;
    await store.change(id, (record) => record && ended(record, "gone"), owner);
  }
}

// news keeps an item that was pushed to the device with the id owner, so that it can be read and answered even where the
// daemon cannot be reached, and shows it. what is what it says. A push service can deliver the same push again, and
// late: each item is shown once, and none that is over. Only a question whose answer was refused is open again, and that
// the daemon must say itself. news reports whether it was shown.
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

// showing keeps those who show notifications from coming between what others look up and what they take away.
export const showing = (work) => navigator.locks.request("mailroom-notifications", work);

// forget removes everything that this device keeps and shows.
export const forget = (registration) =>
  showing(async () => {
    await store.forget();
    await close(registration);
  });

async function close(registration, filter) {
  for (const shown of (await registration?.getNotifications?.(filter)) ?? []) shown.close();
}

// hold keeps an answer, {option}, {option, text} or {text}, which is not sent before the time is due (milliseconds since 1970), and returns
// the record. Where an answer was given before, that one stays: it may have arrived. It throws Unreadable only.
export async function hold(id, given, due) {
  const record = await store.signal(id);
  if (!record) throw new Unreadable("this question is not on this device");
  const body = await sealAnswer(record, await open(record), given);
  const held = await store.change(id, (now) => (now?.status === "pending" && !now.queued ? { ...unanswered(now), answer: given, queued: body, due } : undefined));
  await hush(id);
  return held;
}

// answer keeps an answer, tries to send it at once, and returns the record, as release does.
export async function answer(id, given) {
  await hold(id, given, 0);
  return send(id);
}

// release tries to send an answer that is held, though it could still be taken back, and returns the record. Where that still has
// `queued`, there was no connection and the answer will be sent later.
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

// flush sends the answers that wait, but for those that can still be taken back.
export async function flush() {
  for (const { id, queued } of await store.signals()) if (queued) await send(id);
}

// flushAll sends the answers that wait, each once it can no longer be taken back.
export async function flushAll() {
  for (;;) {
    const due = (await store.signals()).map((record) => (record.queued && record.due) || 0);
    const left = Math.max(0, ...due) - Date.now();
    if (left <= 0) return flush();
    await new Promise((later) => setTimeout(later, left));
  }
}

// alone keeps the page and the service worker from sending the same answer twice, which would look like a lost race.
const alone = (work) => navigator.locks.request("mailroom-answers", work);

const send = (id) =>
  alone(async () => {
    const record = await store.signal(id);
    return record?.queued && !(record.due > Date.now()) ? post(id, record.queued) : record;
  });

async function post(id, body) {
  try {
    await call("POST", `/api/questions/${encodeURIComponent(id)}/answer`, body);
  } catch (error) {
    return store.change(id, (now) => now && refused(now, error));
  }
  return store.change(id, (now) => now && { ...ended(now, "answered"), mine: true });
}

// hush takes away the notification of a question that was answered here, whose buttons must not answer once more, or of an alert.
const hush = (id) =>
  showing(async () => close(globalThis.registration ?? (await navigator.serviceWorker?.getRegistration()), { tag: id }));

// see notes that an alert was read, and takes its notification away.
export async function see(id) {
  await store.change(id, (record) => record && { ...record, read: true });
  await hush(id);
}

// dismiss takes alerts from the list; the history keeps them.
export async function dismiss(ids) {
  for (const id of ids) await store.change(id, (record) => record && { ...record, read: true, gone: true });
}

function refused(record, error) {
  // What was not looked at stays in the queue. What never left can be taken back: that is known only if the browser
  // itself says that it has no network.
  if (error.code === 429 || (error instanceof Offline && !navigator.onLine)) return undefined;
  if (error instanceof Offline) return { ...record, tried: true };
  if (error.code === 409) return ended(record, error.answer.status ?? "answered");
  if (error.code === 404) return ended(record, "gone");
  return { ...unanswered(record), problem: error.message };
}
