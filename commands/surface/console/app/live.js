// The page's connection to the event stream. The page updates at most four times a second and not while it is hidden.
// After an interruption, the stream resumes where it ended.

import { signal } from "@preact/signals";
import { events, Failure } from "./api.js";

// connection is the state of the connection to the daemon: live, paused (the page is hidden), offline, or ended (the
// session is over). since is the time of the last change.
export const connection = signal({ state: "offline", since: Date.now() });

const updateEvery = 250; // milliseconds between two updates of the page
const mostKept = 2000; // events of one update; of further events, only the number is kept
// silence is the number of milliseconds without data after which a stream is closed. The daemon sends something every
// 16 seconds.
const silence = 40_000;

const listeners = new Set();
let cursor = null; // the ID of the last event received
let batch = [], dropped = 0, timer = null;

function become(state) {
  if (connection.value.state !== state) connection.value = { state, since: Date.now() };
}

// onEvents registers f, which is called for each update with the list of events, {id, event, data}, and the number of
// events left out because they came too fast. An empty list, as after a pause, means that anything may have changed.
// onEvents returns a function that unregisters f.
export function onEvents(f) {
  listeners.add(f);
  return () => listeners.delete(f);
}

function tell() {
  clearTimeout(timer);
  timer = null;
  const list = batch, more = dropped;
  batch = [];
  dropped = 0;
  for (const f of listeners) f(list, more);
}

// tellAll tells the listeners that anything may have changed.
function tellAll() {
  batch = [];
  dropped = 0;
  tell();
}

function heard(event) {
  cursor = event.id;
  if (!event.data) return;
  if (batch.length < mostKept) batch.push(event);
  else dropped++;
  timer ??= setTimeout(tell, updateEvery);
}

let following = false;

// follow reads the stream until the session ends. Call it after each login.
export async function follow() {
  if (following) return;
  following = true;
  let pause = 250;
  for (;;) {
    await shown();
    const stop = new AbortController();
    const hide = () => document.hidden && stop.abort();
    document.addEventListener("visibilitychange", hide);
    let last = Date.now(); // when the last data was received
    const watch = setInterval(() => Date.now() - last > silence && stop.abort(), 1000);
    try {
      for await (const event of events(cursor, stop.signal)) {
        last = Date.now();
        if (connection.value.state !== "live") {
          become("live");
          tellAll(); // data that was requested before the stream started may be out of date
        }
        pause = 250;
        heard(event);
      }
    } catch (error) {
      if (error instanceof Failure && error.status === 401) {
        become("ended");
        following = false;
        return;
      }
      // The cursor is unknown after an older copy of the database was restored.
      if (error instanceof Failure && error.status === 400) cursor = null;
    } finally {
      stop.abort(); // the stream may still be open after an error
      clearInterval(watch);
      document.removeEventListener("visibilitychange", hide);
    }
    if (document.hidden) {
      become("paused");
      cursor = null; // the page will request everything again
      continue;
    }
    become("offline");
    await new Promise((resolve) => setTimeout(resolve, pause));
    pause = Math.min(2 * pause, 5000);
  }
}

// shown waits until the page is visible.
export function shown() {
  if (!document.hidden) return Promise.resolve();
  return new Promise((resolve) => {
    document.addEventListener("visibilitychange", function look() {
      if (document.hidden) return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    });
  });
}
