// This browser as a device of the user's: pairing it, what it is asked and told, and answering. Its key and its token are in the storage that the
// browser has for this address (IndexedDB), as on a phone. What questions say is kept in the memory of this page only.

import * as age from "../../phone/app/age.js";
import { enrol } from "../../phone/app/enrol.js";
import { open, sealAnswer, supported } from "../../phone/app/seal.js";
import * as store from "../../phone/app/store.js";
import { askAsDevice, whoAmI } from "./api.js";
import { me } from "./me.js";

globalThis.age = age; // the name by which seal.js knows the library

const read = new Map(); // what was opened, by id: {item, what} or {item, why}
const sealed = new Map(); // requests that answer, by question and answer: what is sent again is the same
const given = new Map(); // what was answered on this page, by question: {option} or {text}

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
  for (const kept of [read, sealed, given]) kept.clear();
}

// answer answers a question with {option} or {text}. Errors: Failure; with status 409 somebody was first, or its time is over.
export async function answer(id, says) {
  const device = await store.get("device"), { item, what } = read.get(id), key = id + JSON.stringify(says);
  if (!sealed.has(key)) sealed.set(key, await sealAnswer(item, what, says));
  given.set(id, says);
  await askAsDevice(device.token, "POST", `questions/${encodeURIComponent(id)}/answer`, { body: sealed.get(key) });
}
