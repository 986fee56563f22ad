// This browser as a device of the user's: pairing it, what it is asked and told, and answering. Its key and its token are in the storage that the
// browser has for this address (IndexedDB), as on a phone. What questions say is kept in the memory of this page only.

import { signal } from "@preact/signals";
import { takeBack } from "../../look/answer.js";
import * as age from "../../phone/app/age.js";
import { enrol } from "../../phone/app/enrol.js";
import { open, sealAnswer, supported } from "../../phone/app/seal.js";
import * as store from "../../phone/app/store.js";
import { askAsDevice, whoAmI } from "./api.js";
import { me } from "./me.js";

globalThis.age = age; // the name by which seal.js knows the library

const read = new Map(); // what was opened, by id: {item, what} or {item, why}
const given = new Map(); // what was answered on this page, by question: {option}, {option, text} or {text}

// held are the answers that can still be taken back, by question: {says, body, until, timer}. refused are those that were not taken: {says, failure}.
export const held = signal(new Map()), refused = signal(new Map());

// answerGiven returns what was answered on this page to a question.
export const answerGiven = (id) => given.get(id);

// wasRead returns what a question says that was open on this page.
export const wasRead = (id) => read.get(id)?.what;

// look asks how this desk stands: {state: none, waiting, active or revoked, device, questions, alerts}. questions is a Map of what is open, by
// id, and alerts a list: {item, what}, or {item, why} where it cannot be read. Errors: Failure.
export async function look(signal) {
  const device = await store.get("device");
  if (!device) return { state: "none" };
  try {
    const { state } = await askAsDevice(device.token, "GET", "device", { signal });
    if (state !== "active") return { state: "waiting", device };
    const { questions, alerts } = await askAsDevice(device.token, "GET", "signals", { signal });
    return { state, device, questions: new Map((await Promise.all(questions.map(opened))).map((q) => [q.item.id, q])), alerts: await Promise.all(alerts.map(opened)) };
  } catch (failure) {
    if (failure.status !== 401) throw failure;
    await whoAmI(); // which fails if it is the session that is over
    return { state: "revoked", device };
  }
}

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

// unpair revokes this desk and forgets its keys.
export async function unpair() {
  const device = await store.get("device");
  try {
    if (device) await askAsDevice(device.token, "DELETE", "device");
  } catch (failure) {
    if (failure.status !== 401) throw failure;
    await whoAmI(); // it was revoked already
  }
  await forget();
}

// forget removes the keys of this desk, and what was read with them.
export async function forget() {
  await store.forget();
  read.clear();
  given.clear();
}

const put = (map, id, value) => {
  const next = new Map(map.value);
  if (value === undefined) next.delete(id);
  else next.set(id, value);
  map.value = next;
};

// hold keeps an answer for the time in which it can be taken back, and sends it then. done is called when that has come to an end.
export async function hold(id, says, done) {
  const { item, what } = read.get(id);
  let body;
  try {
    body = await sealAnswer(item, what, says);
  } catch (failure) {
    put(refused, id, { says, failure });
    return;
  }
  put(refused, id);
  undo(id); // two presses, one after the other: the second counts
  put(held, id, { says, body, until: Date.now() + takeBack, timer: setTimeout(() => release(id), takeBack), done });
}

// undo takes an answer back that was not sent.
export function undo(id) {
  clearTimeout(held.value.get(id)?.timer);
  put(held, id);
}

// release sends an answer that is held. That somebody was first, or that the time is over (409), the lists say.
async function release(id) {
  const { says, body, timer, done } = held.value.get(id);
  clearTimeout(timer);
  given.set(id, says);
  put(held, id, { says, body, until: 0 });
  try {
    const device = await store.get("device");
    await askAsDevice(device.token, "POST", `questions/${encodeURIComponent(id)}/answer`, { body, keepalive: true });
  } catch (failure) {
    if (failure.status !== 409) {
      given.delete(id);
      put(refused, id, { says, failure });
    }
  }
  put(held, id);
  done();
}

// releaseAll sends what is held, for a page that goes away.
export const releaseAll = () => Promise.all([...held.value].map(([id, { until }]) => until && release(id)));

addEventListener("pagehide", releaseAll);
