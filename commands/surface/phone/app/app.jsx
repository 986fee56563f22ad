// The app: it renders the page, performs the actions of its buttons, and keeps the page up to date while it is
// visible.
import { render as draw } from "preact";
import { heldUntil, holding } from "../../look/held.js";
import { Offline, call } from "./api.js";
import { Page, titleOf } from "./page.jsx";
import * as push from "./push.js";
import { askDevice, refresh } from "./refresh.js";
import * as signals from "./signals.js";
import { announce, isUnread, load, read, state, target, view } from "./state.js";
import * as store from "./store.js";
import { chosen, fate } from "./words.js";

const pages = new BroadcastChannel("mailroom"); // the service worker and other pages of the app report changes here

let shown = Promise.resolve();

// inTurn runs one task after the other, so that nothing changes between reading the state and rendering it. A task
// that fails does not stop the tasks after it.
const inTurn = (work) => (shown = shown.then(work).catch((error) => console.error(error)));
const show = () => inTurn(() => load().then(render).then(see));

// render renders the state.
function render() {
  watch();
  draw(<Page act={act} />, document.getElementById("page"));
  document.title = titleOf();
}

// see records that the alerts on the screen have been read. They are marked as new until the person goes to another
// view.
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

// guard wraps the action of a button so that it shows errors.
const guard = (work) => async (...given) => {
  state.problem = "";
  try {
    await work(...given);
  } catch (error) {
    state.problem = error instanceof Offline ? "Cannot reach Mailroom. Try again when you have a connection." : error.message;
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
  if (!record?.answer && !record?.problem) return; // the person took the answer back just before
  state.stay.add(id);
  if (!record.queued) return announce(record.problem ?? fate(record, chosen(record, read.get(id).what)));
  state.online = false;
  announce("No connection. The app keeps your answer and sends it later.");
  await sendWithoutPage();
});

// sendWithoutPage asks the service worker to send the waiting answers, in case the page is closed. Some browsers do
// not support this or do not allow it.
async function sendWithoutPage() {
  const worker = await navigator.serviceWorker?.getRegistration();
  await worker?.sync?.register("answers").catch(() => {});
}

// send sends an answer that was held. Its card stays where the focus is.
async function send(id) {
  const record = state.records.find((known) => known.id === id);
  if (!record?.queued || state.sending.has(id)) return;
  record.due = 0;
  state.sending.set(id, record.answer);
  render();
  await give(id);
  focus(id);
}

// listHeld returns the answers that can still be taken back, as [id, due].
const listHeld = () => state.records.filter(({ queued, due }) => queued && due).map(({ id, due }) => [id, due]);

const { sendDue, watch } = holding({ held: listHeld, send, show: render });

// focus moves the focus to a card, unless another element has it.
function focus(id) {
  if (document.activeElement === document.body) document.getElementById(id)?.focus();
}

// undo takes back an answer. draft is the text that the form shows again. If `words` is true, undo moves the focus to
// the text.
async function undo(id, draft, words = false) {
  if (draft) state.drafts.set(id, draft);
  await guard(() => signals.withdraw(id))();
  if (words) document.getElementById(`${id}-text`)?.focus();
  focus(id);
}

const act = {
  wake: () => wake(),
  // The buttons disappear, so move the focus to their card.
  async answer(id, given) {
    const due = heldUntil(state.records.find((record) => record.id === id)?.expiresAt);
    document.getElementById(id)?.focus();
    await guard(() => signals.hold(id, given, due))();
    state.drafts.delete(id);
    focus(id);
    // hold failed, and the page shows the error.
    if (!state.records.some((record) => record.id === id && record.queued)) return;
    announce("The app sends your answer in five seconds, unless you undo it.");
    sendDue();
    await sendWithoutPage();
  },
  undo,
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
    await subscription?.unsubscribe().catch(() => {}); // the daemon no longer sends pushes in any case
    await signals.forget(worker);
    state.code = "";
    history.replaceState(null, "", "/");
    pages.postMessage("changed");
  }),
};

let timer;
let running;

// tick updates everything, and repeats that while the page is visible. Only one update runs at a time.
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

// wake updates everything when the person returns to the page.
const wake = () => tick(true);

// arrive goes to the item or the view in the address.
const arrive = () => inTurn(() => {
  state.news.clear();
  render();
  if (!found()) scrollTo(0, 0);
  return see();
});

// seek goes to the question or alert in the address, which may have arrived only now.
const seek = () => inTurn(found);

// found moves the focus to the question or alert in the address, unless it already contains the focus. It reports
// whether the item is on the page.
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
      if (url !== "/sw.js") throw new TypeError(`${url} is not a script of this app`);
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

// Register this listener immediately, because messages that arrive without a listener are lost.
navigator.serviceWorker?.addEventListener("message", ({ data }) => {
  location.hash = encodeURIComponent(data.show ?? "");
  wake().then(seek);
});
addEventListener("hashchange", arrive);
addEventListener("focus", wake);
addEventListener("online", wake);
addEventListener("offline", () => ((state.online = false), inTurn(render)));
document.addEventListener("visibilitychange", () => (document.hidden ? sendDue({ all: true }) : wake()));
addEventListener("beforeinstallprompt", (event) => {
  event.preventDefault();
  state.prompt = event;
  inTurn(render);
});
pages.onmessage = () => tick();

show().then(arrive).then(wake).then(seek).then(startWorker);
