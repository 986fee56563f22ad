// Notifications: the subscription to the browser's push service, and the obstacles to it.
import { call } from "./api.js";
import { base64, unbase64 } from "./seal.js";
import * as store from "./store.js";

// subscribe ensures that this browser is subscribed with the daemon's key and that the daemon has the subscription.
// With again, it makes a new subscription, because the push service no longer accepts the current one.
export async function subscribe(registration, { again = false } = {}) {
  const { vapidKey } = await store.get("device");
  const key = unbase64(vapidKey);
  let subscription = await registration.pushManager.getSubscription();
  const other = subscription && base64(new Uint8Array(subscription.options.applicationServerKey ?? [])) !== base64(key);
  if (other || (again && subscription)) {
    await subscription.unsubscribe();
    subscription = null;
  }
  subscription ??= await registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
  const { endpoint, keys } = subscription.toJSON();
  await call("PUT", "/api/subscription", { endpoint, keys: { p256dh: keys.p256dh, auth: keys.auth } });
}

// unsubscribe ends the subscription in the browser and at the daemon.
export async function unsubscribe(registration) {
  const subscription = await registration.pushManager.getSubscription();
  await subscription?.unsubscribe();
  await call("DELETE", "/api/subscription");
}

// onApple reports whether this is an iPhone or iPad. An iPad identifies itself as a Mac.
export const onApple = () =>
  /iPhone|iPad/.test(navigator.userAgent) || (navigator.userAgent.includes("Macintosh") && navigator.maxTouchPoints > 1);

// installed reports whether the app was started from the home screen.
export const installed = () => matchMedia("(display-mode: standalone)").matches || navigator.standalone === true;

// obstacle returns the reason why this browser cannot show notifications: "install" (iOS shows them only for
// installed apps), "unsupported", or "denied". It returns "" if notifications are possible once the person allows
// them.
export function obstacle() {
  if (!("PushManager" in window) || !("Notification" in window)) return onApple() && !installed() ? "install" : "unsupported";
  return Notification.permission === "denied" ? "denied" : "";
}
