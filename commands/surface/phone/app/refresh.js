// Asking the daemon for everything that may have changed.
import { Offline, call } from "./api.js";
import * as push from "./push.js";
import * as signals from "./signals.js";
import { state } from "./state.js";
import * as store from "./store.js";

// askDevice asks the daemon what it makes of this device.
export async function askDevice() {
  const owner = (await store.get("device"))?.id;
  const { name, state: now, vapidKey, push: ring, project } = await call("GET", "/api/device");
  await store.keep("device", (device) => ({ ...device, name, state: now, vapidKey, push: ring, project }), owner);
}

// mend subscribes anew where the browser dropped the subscription or the daemon no longer gets through to it: once for
// each problem, whose text says when it came up.
async function mend(worker) {
  const device = await store.get("device");
  if (device?.state !== "active" || push.obstacle() !== "" || Notification.permission !== "granted") return;
  if (device.push === "none" && (await worker.pushManager.getSubscription())) await push.subscribe(worker);
  if (!device.push?.startsWith("problem") || device.mended === device.push) return;
  await store.keep("device", (now) => ({ ...now, mended: device.push }), device.id);
  await push.subscribe(worker, { again: true });
  await askDevice();
}

// refresh asks the daemon for everything that may have changed.
export async function refresh(whole) {
  let device = await store.get("device");
  if (!device || device.state === "revoked") return;
  try {
    if (whole || device.state === "waiting") await askDevice();
    const worker = whole && (await navigator.serviceWorker?.getRegistration());
    if (worker?.active) await mend(worker).catch((error) => console.info(`not subscribed: ${error.message}`));
    device = await store.get("device");
    if (device?.state === "active") {
      await signals.flush();
      await signals.refresh();
      await store.keep("refreshed", () => new Date().toISOString(), device.id);
    }
    state.online = true;
  } catch (error) {
    if (error instanceof Offline) state.online = false;
    else if (error.code === 401) await store.keep("device", (now) => ({ ...now, state: "revoked" }), device.id);
    else if (error.code === 403) await askDevice().catch(() => {});
    else throw error;
  }
}
