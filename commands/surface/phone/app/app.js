// The page: what is kept on this device, shown, and kept up to date while somebody looks.
import { groups } from "../../look/alerts.js";
import { countDown, takeBack } from "../../look/answer.js";
import { make } from "../../look/dom.js";
import { fill } from "../../look/list.js";
import * as alerts from "./alerts.js";
import { Offline, call } from "./api.js";
import * as cards from "./cards.js";
import { announce, icon } from "./dom.js";
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
  drafts: new Map(), // answers that were taken back, by question
  news: new Set(), // alerts that came up while this view of them is open
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
  if (!state.device) for (const kept of [read, state.sending, state.stay, state.drafts, state.news]) kept.clear();
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
const show = () => inTurn(() => load().then(render).then(see));

// render shows the state.
function render() {
  const { device } = state;
  const paired = device && device.state === "active";
  document.getElementById("views").hidden = !paired;
  document.getElementById("connection").hidden = state.online;
  document.getElementById("fresh").hidden = !state.fresh;
  const [first, ...rest] = paired ? entries[view()]() : [entrance(device)];
  fill(main, [first, problem(), ...rest].filter(Boolean));
  cards.keepTime();
  const open = state.records.filter((record) => record.kind === "question" && record.status === "pending").length;
  document.getElementById("project").textContent = device?.project ?? "";
  for (const link of document.querySelectorAll("#views a")) {
    const here = link.hash === `#${view()}`;
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.getElementById("count").textContent = open || "";
  document.getElementById("unread").textContent = state.records.filter(isUnread).length || "";
  document.title = paired ? `${open ? `(${open}) ` : ""}${views[view()]} · Mailroom` : "Mailroom";
}

const isUnread = (record) => record.kind === "alert" && !record.read;

// see notes that the alerts on the screen have been read. They are marked as new until one goes elsewhere.
async function see() {
  if (view() !== "alerts" || document.hidden) return;
  const unread = state.records.filter(isUnread);
  for (const record of unread) {
    state.news.add(record.id);
    record.read = true;
    await signals.see(record.id);
  }
  if (unread.length > 0) render();
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

// saidBy is what is shown of a record besides itself.
function saidBy(record) {
  const known = read.get(record.id);
  return {
    ...known, project: known.what?.projectId || state.device.project, sending: state.sending.get(record.id), draft: state.drafts.get(record.id),
  };
}

function entry(record) {
  const { sending, draft, project } = saidBy(record);
  const overdue = Date.parse(record.expiresAt) < Date.now(), held = record.due > Date.now();
  const { rung, ...seen } = record; // that it rang changes nothing here, least of all what somebody types
  return {
    key: record.id, signature: JSON.stringify([seen, sending, draft, project, overdue, held]),
    build: () => cards.whole("article", record, () => cards.question(record, saidBy(record), act)),
  };
}

// group is the entry of the alerts of one agent and kind.
function group({ key, list }) {
  const isNew = ({ id }) => state.news.has(id), shows = (record) => isNew(record) || !record.read || record.id === target();
  const signature = JSON.stringify(list.map((record) => [record.id, record.ciphertext, isNew(record), shows(record), saidBy(record).project]));
  return { key, signature, build: () => alerts.card(list, saidBy, { shows, isNew }, act) };
}

const entries = {
  questions() {
    const shown = state.records.filter((r) => r.kind === "question" && (r.status === "pending" || state.stay.has(r.id) || r.id === target()));
    const steps = settings.steps(state.device, state, act);
    const list = shown.length ? shown.map(entry) : [empty("No open questions.")];
    return [title("Questions"), stale(), ...steps, ...list];
  },
  alerts() {
    const shown = groups(state.records.filter((r) => r.kind === "alert" && !r.gone), ({ id }) => read.get(id)?.what);
    return [title("Alerts"), stale(), ...(shown.length ? shown.map(group) : [empty("No alerts.")])];
  },
  history() {
    const over = state.records.filter((r) => r.kind === "alert" || r.status !== "pending");
    const signature = JSON.stringify(over);
    const list = () => make("ul", { class: "lines", role: "list" }, over.map((r) => cards.whole("li", r, () => cards.line(r, saidBy(r)))));
    const clear = () => make("button", { type: "button", class: "btn", onclick: act.clear }, "Clear the history");
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

const give = guard(async (id) => {
  let record;
  try {
    record = await signals.release(id);
  } finally {
    state.sending.delete(id);
  }
  if (!record?.answer && !record?.problem) return; // it was taken back just before
  state.stay.add(id);
  if (!record.queued) return announce(record.problem ?? fate(record, chosen(record, read.get(id).what)));
  state.online = false;
  announce("No connection. Your answer is kept and will be sent later.");
  await sendWithoutPage();
});

// sendWithoutPage has the service worker send what waits, should the page be closed meanwhile. Not every browser has that, or allows it.
async function sendWithoutPage() {
  const worker = await navigator.serviceWorker?.getRegistration();
  await worker?.sync?.register("answers").catch(() => {});
}

// send sends an answer that was held. Its card stays where the focus is.
async function send(id) {
  const record = state.records.find((known) => known.id === id);
  if (!record?.queued || state.sending.has(id)) return;
  state.sending.set(id, record.answer);
  render();
  await give(id);
  focus(id);
}

// sendDue sends the answers that cannot be taken back any more, and those that can as well when nobody looks any more: they were given.
function sendDue({ all = false } = {}) {
  for (const { id, queued, due } of state.records) if (queued && due && (all || due <= Date.now())) send(id);
}

// focus has the focus be in a card, unless it is elsewhere.
function focus(id) {
  if (document.activeElement === document.body) document.getElementById(id)?.focus();
}

// undo takes an answer back. What was written with it stands in its field again; with `words` there is a field in any case.
async function undo(id, words) {
  const answer = state.records.find((record) => record.id === id)?.answer;
  if (words || answer?.text) state.drafts.set(id, answer);
  await guard(() => signals.withdraw(id))();
  if (words) document.getElementById(`${id}-text`)?.focus();
  focus(id);
}

const act = {
  // An answer can be taken back for a moment, unless its question would expire meanwhile. The buttons go away, so the focus goes to their card.
  async answer(id, given) {
    const expires = Date.parse(state.records.find((record) => record.id === id)?.expiresAt);
    const due = Date.now() + (expires < Date.now() + 2 * takeBack ? 0 : takeBack);
    document.getElementById(id)?.focus();
    await guard(() => signals.hold(id, given, due))();
    state.drafts.delete(id);
    focus(id);
    if (!state.records.some((record) => record.id === id && record.due)) return; // it could not be kept, as the page says
    announce("Your answer is sent in five seconds, unless you undo it.");
    sendDue();
    await sendWithoutPage();
  },
  withdraw: (id) => undo(id, false),
  addWords: (id) => undo(id, true),
  dismiss: guard((ids) => signals.dismiss(ids)),
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
  state.news.clear();
  render();
  if (!found()) scrollTo(0, 0);
  return see();
});

// seek goes to the question or alert that the address names, which may not have been here before.
const seek = () => inTurn(found);

// found moves the focus to the question or alert that the address names, unless the focus is in it already, and reports
// whether it is there.
function found() {
  const card = document.getElementById(target());
  if (!card?.matches(".card, .told")) return false;
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
document.addEventListener("visibilitychange", () => (document.hidden ? sendDue({ all: true }) : wake()));
addEventListener("pagehide", () => sendDue({ all: true }));
addEventListener("beforeinstallprompt", (event) => {
  event.preventDefault();
  state.prompt = event;
  inTurn(render);
});
pages.onmessage = () => tick();
document.getElementById("reload").addEventListener("click", () => location.reload());
for (const link of document.querySelectorAll("#views a")) link.prepend(icon(link.hash.slice(1)));

countDown(sendDue);
show().then(arrive).then(wake).then(seek).then(startWorker);
