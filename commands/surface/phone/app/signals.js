// What happens to questions and alerts on this device, shared by the page and the service worker. A record is an item
// of the daemon {id, kind, encrypted, ciphertext or text, status, createdAt, expiresAt} and besides:
//   answer   what was answered here: {option} or {text}
//   queued   the request body with that answer, as long as the daemon has not taken it
//   tried    a try to send it ended without an answer, so it may have arrived
//   mine     the daemon took the answer of this device
//   problem  why the daemon did not take the answer; the question is still open
//   reopened the answer was taken, but the asker refused it: the question is open again
//   endedAt  when this device learned that the question is no longer open
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
  return next;
}

// ended makes the record of a question that is no longer open.
export function ended(record, status) {
  const { queued, ...rest } = record;
  return { ...rest, status, endedAt: record.endedAt ?? new Date().toISOString() };
}

// learn keeps what the daemon said about one item.
export const learn = (item, asked) => store.change(item.id, (record) => merge(record, item, asked));

// longest is how much of what is over is kept: older alerts and questions make room for new ones.
const longest = 500;

// prune removes what is over and too old to be kept.
async function prune() {
  const over = (await store.signals()).filter(({ kind, status }) => kind === "alert" || status !== "pending");
  over.sort((a, b) => (a.createdAt < b.createdAt ? 1 : -1));
  for (const { id } of over.slice(longest)) await store.change(id, () => null);
}

// refresh asks the daemon for what is open, and for what became of the questions that no longer are.
export async function refresh() {
  const asked = Date.now();
  const { questions, alerts } = await call("GET", "/api/signals");
  await exclusively(async () => {
    if (!(await store.get("device"))) return; // it was unpaired meanwhile, and keeps nothing
    const cleared = (await store.get("cleared")) ?? "";
    const there = new Set();
    for (const item of [...questions, ...alerts]) {
      there.add(item.id);
      if (item.kind === "question" || item.id > cleared) await learn(item, asked);
    }
    for (const { id, kind, status } of await store.signals()) {
      if (kind === "question" && status === "pending" && !there.has(id)) await look(id);
    }
    await prune();
    await store.put("refreshed", new Date().toISOString());
  });
}

// exclusively keeps a refresh, which takes what it was told a moment ago, from bringing back what is being removed.
const exclusively = (work) => navigator.locks.request("mailroom-signals", work);

// remember notes what the daemon said of this device, if it is paired still.
export const remember = (said) =>
  exclusively(async () => {
    const device = await store.get("device");
    if (device) await store.put("device", { ...device, ...said });
  });

// forget removes everything from this device.
export const forget = () => exclusively(store.forget);

// look asks the daemon about one item, keeps the answer and returns the record.
export async function look(id) {
  const asked = Date.now();
  try {
    return await learn(await call("GET", `/api/signals/${id}`), asked);
  } catch (error) {
    if (error.code !== 404) throw error;
    return store.change(id, (record) => record && ended(record, "gone"));
  }
}

// answer keeps an answer, {option} or {text}, tries to send it, and returns the record. Where that still has `queued`,
// there was no connection and the answer will be sent later. It throws Unreadable only.
export async function answer(id, given) {
  const record = await store.signal(id);
  if (!record) throw new Unreadable("this question is not on this device");
  const body = await sealAnswer(record, await open(record), given);
  await store.change(id, (now) => (now?.status === "pending" ? { ...unanswered(now), answer: given, queued: body } : undefined));
  return send(id);
}

// withdraw takes back an answer that was not sent.
export const withdraw = (id) =>
  alone(() => store.change(id, (record) => (record?.queued && !record.tried ? unanswered(record) : undefined)));

function unanswered({ answer, queued, tried, problem, reopened, ...rest }) {
  return rest;
}

// flush sends the answers that wait.
export async function flush() {
  for (const { id, queued } of await store.signals()) if (queued) await send(id);
}

// alone keeps the page and the service worker from sending the same answer twice, which would look like a lost race.
const alone = (work) => navigator.locks.request("mailroom-answers", work);

const send = (id) =>
  alone(async () => {
    const record = await store.signal(id);
    if (!record?.queued) return record;
    const sent = await post(id, record.queued);
    if (sent?.status !== "pending") await hush(id);
    return sent;
  });

async function post(id, body) {
  try {
    await call("POST", `/api/questions/${id}/answer`, body);
  } catch (error) {
    return store.change(id, (now) => now && refused(now, error));
  }
  return store.change(id, (now) => now && { ...ended(now, "answered"), mine: true });
}

// hush takes away the notification of a question that this device no longer has to answer: nothing is pushed to it then.
async function hush(id) {
  const worker = globalThis.registration ?? (await navigator.serviceWorker?.getRegistration());
  for (const shown of (await worker?.getNotifications?.({ tag: id })) ?? []) shown.close();
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

// clear removes what is over, and has refresh leave out the alerts that were removed.
export const clear = () =>
  exclusively(async () => {
    let newest = (await store.get("cleared")) ?? "";
    for (const { id, kind, status } of await store.signals()) {
      if (kind === "alert" && id > newest) newest = id;
      if (kind === "alert" || status !== "pending") await store.change(id, () => null);
    }
    await store.put("cleared", newest);
  });
