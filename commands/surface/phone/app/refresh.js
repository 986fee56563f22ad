// Requests to the daemon for everything that may have changed.
import { Offline, call } from "./api.js";
import * as push from "./push.js";
import * as signals from "./signals.js";
import { state } from "./state.js";
import * as store from "./store.js";

// askDevice requests the state of this device from the daemon.
export async function askDevice() {
  const owner = (await store.get("device"))?.id;
  const { name, state: now, vapidKey, push: ring, project } = await call("GET", "/api/device");
  await store.keep("device", (device) => ({ ...device, name, state: now, vapidKey, push: ring, project }), owner);
}

// mend subscribes again if the browser dropped the subscription or if the daemon can no longer send pushes to it. For
// each problem, it makes a new subscription only once. The text of a problem includes when the problem occurred.
async function mend(worker) {
  const device = await store.get("device");
  if (device?.state !== "active" || push.obstacle() !== "" || Notification.permission !== "granted") return;
  if (device.push === "none" && (await worker.pushManager.getSubscription())) await push.subscribe(worker);
  if (!device.push?.startsWith("problem") || device.mended === device.push) return;
  await store.keep("device", (now) => ({ ...now, mended: device.push }), device.id);
  await push.subscribe(worker, { again: true });
  await askDevice();
}

// refresh requests everything that may have changed from the daemon. With `whole`, that includes the state of the
// device and the subscription.
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
