// Becoming a device that waits for its approval.
import { fingerprint, makeKey } from "./seal.js";
import * as store from "./store.js";

// enrol makes this browser a device of a name, and keeps that. register tells the daemon the device's public key, and returns its answer.
export async function enrol(name, register) {
  const recipient = (await store.get("key"))?.recipient ?? (await makeKey());
  const answer = await register(recipient);
  // The print is that of the key here, and not what the daemon says it is: comparing it is what approval is for.
  const print = await fingerprint(recipient);
  if (answer.fingerprint !== print) throw new Error(`the daemon stored a different key for this device (fingerprint ${answer.fingerprint})`);
  await store.put("device", { id: answer.device, name, token: answer.token, state: "waiting", fingerprint: print });
  navigator.storage?.persist?.().catch(() => {}); // Firefox asks the person first, who may never answer
}
