// This browser as a device of the user (a desk): its state, and how it is paired and unpaired. The browser stores the
// desk's key and token for this address (in IndexedDB), as on a phone.

import { enrol } from "../../../phone/app/enrol.js";
import { supported } from "../../../phone/app/seal.js";
import * as store from "../../../phone/app/store.js";
import { Failure, askAsDevice, whoAmI } from "../api.js";
import { me } from "../me.js";
import { forgetAnswers, refuseHeld, releaseAll, reopened } from "./outbox.js";
import { forgetRead, opened, told } from "./reading.js";

// look requests the state of this desk: {state: none, waiting, active or revoked, device, questions, alerts}.
// questions is a Map of the open questions by ID. alerts is a list of the alerts that were not dismissed. Their
// elements are {item, what}, or {item, why} if the item cannot be read; alerts also have `seen`. look throws a
// Failure.
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
    await whoAmI(); // throws if the session, not the desk, has ended
    refuseHeld();
    return { state: "revoked", device };
  }
}

// obstacle returns the reason why this browser cannot be paired, with commands in backquotes, or "" if it can be
// paired.
export async function obstacle() {
  if (me.value.agent !== "operator") return "You are logged in with an agent’s token. To pair this browser, log in with `mailroom console`.";
  if (!me.value.keeps_address) {
    return "This page is not at its usual address, because another program uses the port of the console, or no port is set. A browser stores keys for one address and cannot find them at another address. To see the port, run `mailroom setting get console.port`. Free the port, and open the page again.";
  }
  if (!(await supported())) return "This browser cannot create an X25519 key, which pairing requires. Use a newer version of the browser.";
  return "";
}

// guess returns a default name for this browser.
export function guess() {
  const agent = navigator.userAgent;
  const [browser] = /Firefox|Edg|Chrome|Safari/.exec(agent.replace(/Chrome(?=.*Edg)/, "")) ?? ["Browser"];
  const [system] = /Windows|Mac OS X|Android|Linux/.exec(agent) ?? [""];
  return `${browser === "Edg" ? "Edge" : browser}${system && ` on ${system === "Mac OS X" ? "macOS" : system}`}`;
}

// pair makes this browser a device that waits for approval.
export const pair = (name) => enrol(name, (recipient) => askAsDevice("", "POST", "device", { body: { name, recipient } }));

// unpair sends the held answers, revokes this desk, and removes its keys. If the daemon refuses an answer, the desk
// stays paired, so that the text of the answer is not lost.
export async function unpair() {
  const refusal = (await releaseAll()).find(Boolean), device = await store.get("device");
  if (refusal?.status === 401) await whoAmI(); // throws if the session, not the desk, has ended
  else if (refusal) throw new Failure(refusal.code, `This desk stays paired, because an answer was not accepted: ${refusal.message}`, refusal.hint);
  try {
    if (device) await askAsDevice(device.token, "DELETE", "device");
  } catch (failure) {
    if (failure.status !== 401) throw failure;
    await whoAmI(); // throws if the session has ended; otherwise the desk was already revoked
  }
  await forget();
}

// forget removes the keys of this desk, everything that was decrypted with them, and the answers, which the daemon
// would no longer accept from this desk.
export async function forget() {
  await store.forget();
  forgetRead();
  forgetAnswers();
}
