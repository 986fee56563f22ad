// The service worker: it starts the app without a connection, shows pushes, and answers from a notification.
import { open } from "./seal.js";
import { alertWord } from "../../look/alerts.js";
import { ranked } from "../../look/options.js";
import { fate, within } from "./words.js";
import * as signals from "./signals.js";
import { subscribe } from "./push.js";
import * as store from "./store.js";

// VERSION is a digest of all cached files. The build inserts it, so that any change of a file makes a new service
// worker.
const cacheName = "shell-" + VERSION;
const shell = ["/", "/app.js", "/age.js", "/style.css", "/manifest.webmanifest", "/icon-192.png", "/icon-512.png", "/badge-96.png"];

const trusted = globalThis.trustedTypes?.createPolicy("mailroom", {
  createScriptURL: (url) => {
    if (url !== "/age.js") throw new TypeError(`${url} is not a script of this app`);
    return url;
  },
});
importScripts(trusted ? trusted.createScriptURL("/age.js") : "/age.js");

const pages = new BroadcastChannel("mailroom");
const tellPages = () => pages.postMessage("changed");

addEventListener("install", (event) => {
  const fresh = shell.map((path) => new Request(path, { cache: "reload", credentials: "omit" }));
  event.waitUntil(caches.open(cacheName).then((cache) => cache.addAll(fresh)));
  skipWaiting();
});

addEventListener("activate", (event) => event.waitUntil(takeOver()));

async function takeOver() {
  for (const name of await caches.keys()) if (name !== cacheName) await caches.delete(name);
  await clients.claim();
}

addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  if (event.request.method !== "GET" || url.origin !== location.origin) return;
  const path = event.request.mode === "navigate" && url.pathname === "/pair" ? "/" : url.pathname;
  if (shell.includes(path)) event.respondWith(fromShell(path, event.request));
});

async function fromShell(path, request) {
  const cache = await caches.open(cacheName);
  return (await cache.match(path)) ?? fetch(request);
}

addEventListener("push", (event) => event.waitUntil(pushed(event.data)));

// pushed shows a push. It shows nothing if the push cannot be read or is not what it claims to be.
async function pushed(data) {
  try {
    const said = data.json();
    if (said.kind === "test") await notify("Mailroom can reach this device", { body: "This is a test notification.", tag: "test" });
    if (said.kind === "ended") await showEnd(said);
    if (said.kind === "question" || said.kind === "alert") await showNew(said);
  } catch (error) {
    console.warn(`a push was not shown: ${error.message}`);
  }
}

async function showNew({ id, kind, ciphertext, text }) {
  const device = await store.get("device");
  if (!device) throw new Error("this device was unpaired before the push arrived");
  let item = { id, kind, encrypted: text === undefined, ciphertext, text };
  if (!ciphertext && !text) item = await signals.ask(id);
  if (item.id !== id || item.kind !== kind) return;
  const what = await open(item);
  const shown = await signals.news(item, what, device.id, () => {
    tellPages();
    return (kind === "alert" ? showAlert : showQuestion)(item, what, what.projectId || device.project);
  });
  if (!shown && (await onApple())) await flash("Mailroom", { body: "Nothing new.", tag: "nothing" });
}

// onApple reports whether pushes come from Apple, which ends the subscription of an app whose pushes show nothing.
// For these pushes, the service worker briefly shows a notification if there is nothing else to show.
async function onApple() {
  const subscription = await registration.pushManager.getSubscription();
  return new URL(subscription?.endpoint ?? location).hostname.endsWith(".push.apple.com");
}

async function flash(title, options) {
  await notify(title, { silent: true, ...options });
  for (const shown of await registration.getNotifications({ tag: options.tag })) shown.close();
}

const marked = (item, body) => (item.encrypted ? body : `Not encrypted. ${body}`);

// If the browser does not report the number of buttons but supports them, it shows two.
const maxActions = () => Notification.maxActions ?? ("actions" in Notification.prototype ? 2 : 0);

function showQuestion(item, what, project) {
  const actions = ranked(what.question, what.options ?? []).map(({ option, words }) => ({ action: `option:${option}`, title: words }));
  return notify(within(project, `${what.from} asks`), {
    body: marked(item, what.question),
    tag: item.id,
    actions: actions.length <= maxActions() ? actions : [],
    silent: what.priority === "low",
    requireInteraction: what.priority === "high",
    timestamp: Date.parse(what.createdAt),
    data: { id: item.id },
  });
}

function showAlert(item, what, project) {
  return notify(within(project, `${alertWord(what)} from ${what.from}`), {
    body: marked(item, what.message),
    tag: item.id,
    silent: what.priority === "low",
    requireInteraction: what.priority === "high",
    timestamp: Date.parse(what.createdAt),
    data: { id: item.id },
  });
}

// showEnd replaces the notification of a question with a silent one about its outcome. If the question was answered
// on this device, it removes the notification.
async function showEnd({ id, status }) {
  if (!["answered", "expired", "cancelled"].includes(status)) return;
  await signals.showing(async () => {
    const record = await store.change(id, (known) => (known?.status === "pending" ? signals.ended(known, status) : undefined));
    const [shown] = await registration.getNotifications({ tag: id });
    const [title, options] = [shown?.title ?? "A question was closed", { body: fate(record ?? { status }), tag: id, silent: true, data: { id } }];
    if (shown && !record?.mine) await notify(title, options);
    else if (await onApple()) await flash(title, options);
    else shown?.close();
  });
  tellPages();
}

const notify = (title, options) =>
  registration.showNotification(title, { icon: "/icon-192.png", badge: "/badge-96.png", lang: "en", ...options });

addEventListener("notificationclick", (event) => {
  event.notification.close();
  const id = event.notification.data?.id;
  const option = /^option:(\d+)$/.exec(event.action)?.[1];
  event.waitUntil(option === undefined ? show(id) : press(id, Number(option)));
});

// press answers a question with the button of a notification. If the daemon did not accept this answer, press opens
// the page, which shows what happened.
async function press(id, option) {
  const record = await signals.answer(id, { option }).catch(() => undefined);
  tellPages();
  if (!record?.mine || record.answer?.option !== option) await show(id);
}

// show brings the page to the front, at the question or alert with this ID.
async function show(id = "") {
  const [page] = await clients.matchAll({ type: "window", includeUncontrolled: true });
  if (!page) return clients.openWindow(`/#${encodeURIComponent(id)}`);
  page.postMessage({ show: id });
  return page.focus();
}

addEventListener("pushsubscriptionchange", (event) => event.waitUntil(subscribe(registration)));

// Browsers that support this event send it when there is a connection again, even if the page is closed.
addEventListener("sync", (event) => event.waitUntil(signals.flushAll().then((any) => any && tellPages())));
