// Pairing: registering this browser as a device that waits for approval.
import { fingerprint, makeKey } from "./seal.js";
import * as store from "./store.js";

// enrol registers this browser as a device with a name, and stores the device. register sends the device's public key
// to the daemon and returns the response.
export async function enrol(name, register) {
  const recipient = (await store.get("key"))?.recipient ?? (await makeKey());
  const answer = await register(recipient);
  // Compute the fingerprint from the local key, and do not use the daemon's value, because approval compares the two.
  const print = await fingerprint(recipient);
  if (answer.fingerprint !== print) throw new Error(`the daemon stored a different key for this device (fingerprint ${answer.fingerprint})`);
  await store.put("device", { id: answer.device, name, token: answer.token, state: "waiting", fingerprint: print });
  navigator.storage?.persist?.().catch(() => {}); // Firefox first asks the person, who may never answer
}
