// The stream of events, as the page sees it: at most four updates a second, none while nobody looks, and always resumed where it ended.

import { signal } from "@preact/signals";
import { events, Failure } from "./api.js";

// connection says how the page stands to the daemon: state is live, paused (the page is hidden), offline, or ended (the session
// is over); since is the time of the last change.
export const connection = signal({ state: "offline", since: Date.now() });

const updateEvery = 250; // milliseconds between two updates of the page
const mostKept = 2000; // events of one update; of more only their number is known
const silence = 40_000; // milliseconds after which a stream is given up: the daemon says something every 16 seconds

const listeners = new Set();
let cursor = null; // the id of the last event that was seen
let batch = [], dropped = 0, timer = null;

function become(state) {
  if (connection.value.state !== state) connection.value = { state, since: Date.now() };
}

// onEvents calls f with what has happened: the list of {id, event, data}, and the number of those that are left out since they came too
// fast. An empty list after a pause says that anything may have happened. It returns a function that ends that.
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

// tellAll says that anything may have happened.
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

// follow follows the stream until the session is over. Call it whenever there is a token anew.
export async function follow() {
  if (following) return;
  following = true;
  let pause = 250;
  for (;;) {
    await shown();
    const stop = new AbortController();
    const hide = () => document.hidden && stop.abort();
    document.addEventListener("visibilitychange", hide);
    let last = Date.now(); // when something was heard
    const watch = setInterval(() => Date.now() - last > silence && stop.abort(), 1000);
    try {
      for await (const event of events(cursor, stop.signal)) {
        last = Date.now();
        if (connection.value.state !== "live") {
          become("live");
          tellAll(); // what was asked for before the stream began may have changed since
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
      if (error instanceof Failure && error.status === 400) cursor = null; // an older copy of the database is in its place
    } finally {
      stop.abort(); // what has failed may still be open
      clearInterval(watch);
      document.removeEventListener("visibilitychange", hide);
    }
    if (document.hidden) {
      become("paused");
      cursor = null; // everything is asked for anew
      continue;
    }
    become("offline");
    await new Promise((resolve) => setTimeout(resolve, pause));
    pause = Math.min(2 * pause, 5000);
  }
}

// shown waits until the page is looked at.
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
