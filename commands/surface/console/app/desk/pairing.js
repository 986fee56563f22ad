// This browser as a device of the user's: how it stands, pairing and unpairing it. Its key and its token are in the
// storage that the browser has for this address (IndexedDB), as on a phone.

import { enrol } from "../../../phone/app/enrol.js";
import { supported } from "../../../phone/app/seal.js";
import * as store from "../../../phone/app/store.js";
import { Failure, askAsDevice, whoAmI } from "../api.js";
import { me } from "../me.js";
import { forgetAnswers, refuseHeld, releaseAll, reopened } from "./outbox.js";
import { forgetRead, opened, told } from "./reading.js";

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

// obstacle says why this browser cannot be paired, with commands in backquotes; "" if it can.
export async function obstacle() {
  if (me.value.agent !== "operator") return "You are logged in with an agent’s token. To pair this browser, log in with `mailroom console`.";
  if (!me.value.keeps_address) {
    return "This page is not at its usual address, because another program uses the port of the console, or no port is set. A browser stores keys for one address and cannot find them at another address. To see the port, run `mailroom setting get console.port`. Free the port, and open the page again.";
  }
  if (!(await supported())) return "This browser cannot create an X25519 key, which pairing requires. Use a newer version of the browser.";
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
  else if (refusal) throw new Failure(refusal.code, `This desk stays paired, because an answer was not accepted: ${refusal.message}`, refusal.hint);
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
  forgetRead();
  forgetAnswers();
}
