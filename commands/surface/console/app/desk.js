// This browser as a device of the user's: pairing it, what it is asked and told, and answering. Its key and its token are in the storage that the
// browser has for this address (IndexedDB), as on a phone. What questions say is kept in the memory of this page only.

import { signal } from "@preact/signals";
import { heldUntil, holding } from "../../look/held.js";
import * as age from "../../phone/app/age.js";
import { enrol } from "../../phone/app/enrol.js";
import { open, sealAnswer, supported } from "../../phone/app/seal.js";
import * as store from "../../phone/app/store.js";
import { Failure, askAsDevice, whoAmI } from "./api.js";
import { me } from "./me.js";

globalThis.age = age; // the name by which seal.js knows the library

const read = new Map(); // what was opened, by id: {item, what} or {item, why}
// given is what was answered on this page, by question: {says, taken, late}. taken is when the daemon had taken it; late that it came too late.
const given = new Map();

// drafts are the words that were typed and not sent, by question: {text}. They are kept while the form is not shown.
export const drafts = new Map();

// held are the answers that can still be taken back, by question: {says, body, token, until, done}; of one on its way {says, until: 0,
// sending}. refused are those that were not taken: {says, failure}. What an answer says is {option}, {option, text} or {text}.
export const held = signal(new Map()), refused = signal(new Map());

// answerGiven returns what was answered on this page to a question: {says, taken, late}.
export const answerGiven = (id) => given.get(id);

// wasRead returns what a question says that was open on this page.
export const wasRead = (id) => read.get(id)?.what;

// look asks how this desk stands: {state: none, waiting, active or revoked, device, questions, alerts}. questions is a Map of what is open, by
// id, and alerts a list of those that were not dismissed: {item, what, seen}, or {item, why, seen} where it cannot be read. Errors: Failure.
export async function look(signal) {
  const device = await store.get("device");
  if (!device) return { state: "none" };
  try {
    const { state } = await askAsDevice(device.token, "GET", "device", { signal });
    if (state !== "active") return { state: "waiting", device };
    const asked = performance.now();
    const { questions, alerts } = await askAsDevice(device.token, "GET", "signals", { signal });
    for (const { id } of questions) reopened(id, asked);
    return { state, device, questions: new Map((await Promise.all(questions.map(opened))).map((q) => [q.item.id, q])), alerts: await told(alerts) };
  } catch (failure) {
    if (failure.status !== 401) throw failure;
    await whoAmI(); // which fails if it is the session that is over
    refuseHeld();
    return { state: "revoked", device };
  }
}

// refuseHeld gives up what is held on a desk that was revoked: nobody would take it.
function refuseHeld() {
  for (const [id, { says, sending }] of held.value) {
    if (sending) continue;
    undo(id);
    put(refused, id, { says, failure: new Failure("unauthenticated", "This desk was revoked.") });
  }
}

// reopened notes that an answer was refused: the daemon had taken it, and said at `asked`, which is later, that the question is open.
function reopened(id, asked) {
  const { says, taken } = given.get(id) ?? {};
  if (!(taken < asked)) return;
  given.delete(id);
  put(refused, id, { says, failure: new Failure("refused", "It did not pass the check of who asked, so that the question is open again.", `Answer once more. \`mailroom trace ${id}\` says what was wrong.`) });
}

// told opens alerts, but for those that were dismissed.
async function told(alerts) {
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
async function opened(item) {
  const known = read.get(item.id);
  if (known && known.item.ciphertext === item.ciphertext) return known;
  const entry = await open(item).then((what) => ({ item, what }), (error) => ({ item, why: error.message }));
  read.set(item.id, entry);
  return entry;
}

// obstacle says why this browser cannot be paired, with commands in backquotes; "" if it can.
export async function obstacle() {
  if (me.value.agent !== "operator") return "You are logged in with a token of an agent. A session that `mailroom console` opens can pair this browser.";
  if (!me.value.keeps_address) {
    return "This page is not at its usual address: the port is taken, or none was chosen. A browser keeps keys for one address, and would not find them the next time. Free the port of `mailroom setting get console.port`, and open the page again.";
  }
  if (!(await supported())) return "This browser cannot make the key that is needed (X25519). A newer version can.";
  return "";
}

// guess is how this browser could be called.
export function guess() {
  const agent = navigator.userAgent;
  const [browser] = /Firefox|Edg|Chrome|Safari/.exec(agent.replace(/Chrome(?=.*Edg)/, "")) ?? ["Browser"];
  const [system] = /Windows|Mac OS X|Android|Linux/.exec(agent) ?? [""];
  return `${browser === "Edg" ? "Edge" : browser}${system && ` on ${system === "Mac OS X" ? "macOS" : system}`}`;
}

// pair makes this browser a device that waits for approval.
export const pair = (name) => enrol(name, (recipient) => askAsDevice("", "POST", "device", { body: { name, recipient } }));

// unpair sends what is held, revokes this desk and forgets its keys. If an answer is refused, the desk stays paired, so that its words stay.
export async function unpair() {
  const refusal = (await releaseAll()).find(Boolean), device = await store.get("device");
  if (refusal?.status === 401) await whoAmI(); // which fails if it is the session that is over
  else if (refusal) throw new Failure(refusal.code, `This desk stays paired, since an answer was not taken: ${refusal.message}`, refusal.hint);
  try {
    if (device) await askAsDevice(device.token, "DELETE", "device");
  } catch (failure) {
    if (failure.status !== 401) throw failure;
    await whoAmI(); // it was revoked already
  }
  await forget();
}

// forget removes the keys of this desk, what was read with them, and the answers that nobody would take from it any more.
export async function forget() {
  await store.forget();
  for (const kept of [read, given, drafts]) kept.clear();
  for (const kept of [held, refused]) kept.value = new Map();
}

const put = (map, id, value) => {
  const next = new Map(map.value);
  if (value === undefined) next.delete(id);
  else next.set(id, value);
  map.value = next;
};

// hold keeps an answer for the time in which it can be taken back, and sends it then. done is called when that has come to an end.
export async function hold(id, says, done) {
  drafts.delete(id);
  let body, token;
  try {
    const opened = read.get(id), device = await store.get("device");
    if (!opened || !device) throw new Failure("unpaired", "This browser is not paired any more.", "Pair it anew, or answer on another device.");
    body = await sealAnswer(opened.item, opened.what, says);
    token = device.token;
  } catch (failure) {
    put(refused, id, { says, failure });
    return;
  }
  put(refused, id);
  // Of two presses, one after the other, the second counts.
  put(held, id, { says, body, token, until: heldUntil(read.get(id).item.expiresAt), done });
}

// undo takes an answer back that was not sent. draft is what stands in its form again.
export function undo(id, draft) {
  if (draft) drafts.set(id, draft);
  put(held, id);
}

// release sends an answer that is held, and returns a promise of the failure if it is refused.
function release(id) {
  const answer = held.value.get(id), sending = send(id, answer);
  put(held, id, { says: answer.says, until: 0, sending });
  return sending;
}

// send does so. It waits for nothing before, since a page that goes away does not go on after an await. That somebody was first, or that the
// time is over (409), the lists say.
async function send(id, { says, body, token, done }) {
  const answer = { says };
  let refusal;
  given.set(id, answer);
  try {
    await askAsDevice(token, "POST", `questions/${encodeURIComponent(id)}/answer`, { body, keepalive: true });
    answer.taken = performance.now();
  } catch (failure) {
    if (failure.status === 409) answer.late = true;
    else {
      refusal = failure;
      given.delete(id);
      put(refused, id, { says, failure });
    }
  }
  put(held, id);
  done();
  return refusal;
}

// releaseAll sends what is held, for a page that goes away, and waits for what is on its way. Of each it returns the failure if it is refused.
export const releaseAll = () => Promise.all([...held.value].map(([id, { sending }]) => sending ?? release(id)));

const listHeld = () => [...held.value].filter(([, { until }]) => until).map(([id, { until }]) => [id, until]);

held.subscribe(holding({ held: listHeld, send: release, show: () => (held.value = new Map(held.value)) }).watch);
