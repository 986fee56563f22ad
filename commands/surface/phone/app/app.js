// The page: what is kept on this device, shown, and kept up to date while somebody looks.
import { Offline, call } from "./api.js";
import * as cards from "./cards.js";
import { announce, icon, make } from "./dom.js";
import { fill } from "./list.js";
import * as pairing from "./pair.js";
import * as push from "./push.js";
import { open } from "./seal.js";
import * as settings from "./settings.js";
import * as signals from "./signals.js";
import * as store from "./store.js";
import { chosen, fate, when } from "./words.js";

const state = {
  code: pairing.takeCode(),
  device: undefined,
  records: [],
  putOff: [],
  prompt: undefined, // the browser's offer to install the app
  online: true,
  refreshed: "", // when the daemon last answered
  problem: "",
  fresh: false, // a newer version has been installed
  sending: new Map(), // what is being sent, by question
  stay: new Set(), // questions that ended while they were on the screen
};
const read = new Map(); // what records say, by id; decrypted once

const views = { questions: "Questions", alerts: "Alerts", history: "History", settings: "Settings" };
const nameOf = (hash) => (Object.hasOwn(views, hash) ? hash : hash.startsWith("a-") ? "alerts" : "questions");
const view = () => nameOf(target());

// target is what the address names: a view, or the id of a question or alert.
function target() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return "";
  }
}

const main = document.querySelector("main");
const pages = new BroadcastChannel("mailroom"); // what the service worker and other pages of the app have changed

// load takes what is kept into the state. The first time nothing is news.
async function load() {
  const known = new Map(state.records.map((record) => [record.id, record]));
  const first = state.device === undefined;
  const before = state.device?.state;
  state.device = (await store.get("device")) ?? null;
  if (!state.device) for (const kept of [read, state.sending, state.stay]) kept.clear();
  if (before === "waiting" && state.device?.state === "active") announce("This device was approved.");
  state.putOff = (await store.get("putOff")) ?? [];
  state.refreshed = (await store.get("refreshed")) ?? "";
  const records = (await store.signals()).sort((a, b) => (a.createdAt < b.createdAt ? 1 : -1));
  for (const record of records) {
    if (read.get(record.id)?.ciphertext !== record.ciphertext || !read.has(record.id)) read.set(record.id, await said(record));
    const before = known.get(record.id);
    if (before?.status === "pending" && record.status !== "pending") state.stay.add(record.id);
    if (!before && !first && record.status === "pending") tell(record);
  }
  state.records = records;
}

const said = (record) =>
  open(record).then(
    (what) => ({ ciphertext: record.ciphertext, what }),
    (error) => ({ ciphertext: record.ciphertext, why: error.message }),
  );

function tell(record) {
  const from = read.get(record.id).what?.from;
  announce(record.kind === "alert" ? `New alert${from ? ` from ${from}` : ""}` : `New question${from ? ` from ${from}` : ""}`);
}

let shown = Promise.resolve();

// inTurn has nothing come between what is read and what is shown of it. What fails there fails for this time only.
const inTurn = (work) => (shown = shown.then(work).catch((error) => console.error(error)));
const show = () => inTurn(() => load().then(render));

// render shows the state.
function render() {
  const { device } = state;
  const paired = device && device.state === "active";
  document.getElementById("views").hidden = !paired;
  document.getElementById("connection").hidden = state.online;
  document.getElementById("fresh").hidden = !state.fresh;
  const [first, ...rest] = paired ? entries[view()]() : [entrance(device)];
  fill(main, [first, problem(), ...rest].filter(Boolean));
  const open = state.records.filter((record) => record.kind === "question" && record.status === "pending").length;
  for (const link of document.querySelectorAll("#views a")) {
    const here = link.hash === `#${view()}`;
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.getElementById("count").textContent = open || "";
  document.title = paired ? `${open ? `(${open}) ` : ""}${views[view()]} · Mailroom` : "Mailroom";
}

function entrance(device) {
  if (!device) return { key: "pair", signature: state.code, build: () => pairing.form(state.code, wake) };
  if (device.state === "waiting") return { key: "waiting", signature: device.id, build: () => pairing.waiting(device, act.unpair) };
  return { key: "revoked", signature: "", build: () => pairing.revoked(act.forget) };
}

const title = (words) => ({ key: "title", signature: words, build: () => make("h1", {}, words) });
const problem = () => state.problem && {
  key: "problem", signature: state.problem, build: () => make("p", { class: "notice bad" }, state.problem),
};
const empty = (words) => ({ key: "empty", signature: words, build: () => make("p", { class: "empty" }, words) });

const stale = () => !state.online && {
  key: "stale",
  signature: state.refreshed,
  build: () => make("p", { class: "notice" }, icon("offline"),
    ` Mailroom cannot be reached. ${state.refreshed ? `What you see is from ${when(state.refreshed)}. ` : ""}Answers are kept and sent later.`),
};

function entry(record, build) {
  const shown = { ...read.get(record.id), sending: state.sending.get(record.id) };
  const overdue = Date.parse(record.expiresAt) < Date.now();
  const { rung, ...seen } = record; // that it rang changes nothing here, least of all what somebody types
  return { key: record.id, signature: JSON.stringify([seen, shown.sending, overdue]), build: () => cards.whole("article", record, () => build(record, shown, act)) };
}

const entries = {
  questions() {
    const shown = state.records.filter((r) => r.kind === "question" && (r.status === "pending" || state.stay.has(r.id) || r.id === target()));
    const steps = settings.steps(state.device, state, act);
    const list = shown.length ? shown.map((r) => entry(r, cards.question)) : [empty("No open questions.")];
    return [title("Questions"), stale(), ...steps, ...list];
  },
  alerts() {
    const shown = state.records.filter((r) => r.kind === "alert");
    return [title("Alerts"), stale(), ...(shown.length ? shown.map((r) => entry(r, cards.alert)) : [empty("No alerts.")])];
  },
  history() {
    const over = state.records.filter((r) => r.kind === "alert" || r.status !== "pending");
    const signature = JSON.stringify(over);
    const list = () => make("ul", { class: "lines", role: "list" }, over.map((r) => cards.whole("li", r, () => cards.line(r, read.get(r.id)))));
    const clear = () => make("button", { type: "button", class: "plain", onclick: act.clear }, "Clear the history");
    return over.length === 0
      ? [title("History"), empty("Nothing yet. What you answered and what you were told is kept here, on this device only.")]
      : [title("History"), { key: "lines", signature, build: list }, { key: "clear", signature: "", build: clear }];
  },
  settings: () => settings.view(state.device, state, act),
};

// guard runs what a button starts and shows what goes wrong.
const guard = (work) => async (...given) => {
  state.problem = "";
  try {
    await work(...given);
  } catch (error) {
    state.problem = error instanceof Offline ? "Mailroom cannot be reached. Try again when there is a connection." : error.message;
    announce(state.problem);
  }
  await show();
};

const registration = () => navigator.serviceWorker.ready;

const give = guard(async (id, given) => {
  let record;
  try {
    record = await signals.answer(id, given);
  } finally {
    state.sending.delete(id);
  }
  state.stay.add(id);
  if (!record.queued) return announce(record.problem ?? fate(record, chosen(record, read.get(id).what)));
  state.online = false;
  announce("No connection. Your answer is kept and will be sent later.");
  const worker = await navigator.serviceWorker?.getRegistration();
  await worker?.sync?.register("answers").catch(() => {}); // not every browser has it, or allows it
});

const act = {
  // The buttons go away, so the focus goes to their card, and to the one that takes its place unless it went elsewhere.
  async answer(id, given) {
    state.sending.set(id, given);
    render();
    document.getElementById(id)?.focus();
    await give(id, given);
    if (document.activeElement === document.body) document.getElementById(id)?.focus();
  },
  withdraw: guard((id) => signals.withdraw(id)),
  clear: guard(async () => {
    await signals.clear();
    state.stay.clear();
    announce("The history was cleared.");
  }),
  putOff: guard((step) => store.keep("putOff", (before = []) => [...before, step])),
  ring: guard(async () => {
    if ((await Notification.requestPermission()) !== "granted") return;
    await push.subscribe(await registration());
    await askDevice();
  }),
  again: guard(async () => {
    await push.subscribe(await registration(), { again: true });
    await askDevice();
  }),
  quiet: guard(async () => {
    await push.unsubscribe(await registration());
    await askDevice();
  }),
  install: guard(async () => {
    await state.prompt.prompt();
    state.prompt = undefined;
  }),
  unpair: guard(async () => {
    await call("DELETE", "/api/device");
    await act.forget();
  }),
  forget: guard(async () => {
    const worker = await navigator.serviceWorker?.getRegistration();
    const subscription = await worker?.pushManager?.getSubscription();
    await subscription?.unsubscribe().catch(() => {}); // the daemon pushes no more in any case
    await signals.forget(worker);
    state.code = "";
    history.replaceState(null, "", "/");
    pages.postMessage("changed");
  }),
};

// askDevice asks the daemon what it makes of this device.
async function askDevice() {
  const owner = (await store.get("device"))?.id;
  const { name, state: now, vapidKey, push: ring } = await call("GET", "/api/device");
  await store.keep("device", (device) => ({ ...device, name, state: now, vapidKey, push: ring }), owner);
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
async function refresh(whole) {
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

let timer;
let running;

// tick brings everything up to date, and does so again as long as somebody looks. Only one runs at a time.
function tick(whole) {
  clearTimeout(timer);
  running = (running ?? Promise.resolve())
    .then(() => refresh(whole))
    .catch((error) => (state.problem = error.message))
    .then(show)
    .finally(() => {
      clearTimeout(timer);
      if (!document.hidden) timer = setTimeout(tick, state.device?.state === "waiting" ? 2000 : 5000);
    });
  return running;
}

// wake is for when somebody looks again.
const wake = () => tick(true);

// arrive goes to what the address names, or to the top of a view.
const arrive = () => inTurn(() => {
  render();
  if (!found()) scrollTo(0, 0);
});

// seek goes to the question or alert that the address names, which may not have been here before.
const seek = () => inTurn(found);

// found moves the focus to the question or alert that the address names, unless the focus is in it already, and reports
// whether it is there.
function found() {
  const card = document.getElementById(target());
  if (!card?.matches(".card")) return false;
  if (!card.contains(document.activeElement)) card.focus();
  return true;
}

async function startWorker() {
  if (!("serviceWorker" in navigator)) return;
  const policy = globalThis.trustedTypes?.createPolicy("mailroom", {
    createScriptURL: (url) => {
      if (url !== "/sw.js") throw new TypeError(`${url} is no script of this app`);
      return url;
    },
  });
  const replaced = navigator.serviceWorker.controller !== null;
  navigator.serviceWorker.addEventListener("controllerchange", () => {
    state.fresh = replaced;
    inTurn(render);
  });
  await navigator.serviceWorker.register(policy ? policy.createScriptURL("/sw.js") : "/sw.js", { updateViaCache: "none" });
}

// Not later: what comes while nobody listens is lost.
navigator.serviceWorker?.addEventListener("message", ({ data }) => {
  location.hash = encodeURIComponent(data.show ?? "");
  wake().then(seek);
});
addEventListener("hashchange", arrive);
addEventListener("focus", wake);
addEventListener("online", wake);
addEventListener("offline", () => ((state.online = false), inTurn(render)));
document.addEventListener("visibilitychange", () => !document.hidden && wake());
addEventListener("beforeinstallprompt", (event) => {
  event.preventDefault();
  state.prompt = event;
  inTurn(render);
});
pages.onmessage = () => tick();
document.getElementById("reload").addEventListener("click", () => location.reload());
for (const link of document.querySelectorAll("#views a")) link.prepend(icon(link.hash.slice(1)));

show().then(arrive).then(wake).then(seek).then(startWorker);
