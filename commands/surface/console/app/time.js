// Times as people read them. `now` ticks once a second while the page is looked at, so that "2 min ago" stays true.

import { signal } from "@preact/signals";
import { span } from "../../look/time.js";

export { span };

export const now = signal(Date.now());
setInterval(() => {
  if (!document.hidden) now.value = Date.now();
}, 1000);
document.addEventListener("visibilitychange", () => (now.value = Date.now()));

// utc is whether times are shown in UTC; otherwise they are local.
export const utc = signal(localStorage.getItem("utc") === "yes");
export function toggleUTC() {
  utc.value = !utc.value;
  localStorage.setItem("utc", utc.value ? "yes" : "no");
}

const zone = () => (utc.value ? "UTC" : undefined);
const made = new Map(); // formats are costly to make
function format(options) {
  const key = JSON.stringify(options) + zone();
  if (!made.has(key)) made.set(key, new Intl.DateTimeFormat("en-GB", { ...options, timeZone: zone() }));
  return made.get(key);
}

// written is a time in a form. What is none stands there as it is: programs can write anything into the tables.
function written(text, options) {
  const at = new Date(text);
  return Number.isNaN(+at) ? String(text ?? "") : format(options).format(at);
}

// clock is a time of today as 15:18:04, another as 20 Nov 15:18.
export function clock(text, { seconds = true } = {}) {
  const today = { dateStyle: "short" };
  if (written(text, today) === written(now.value, today)) return written(text, { hour: "2-digit", minute: "2-digit", ...(seconds ? { second: "2-digit" } : {}) });
  return written(text, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" }).replace(",", "");
}

// precise is a time with its milliseconds.
export const precise = (text) => written(text, { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 });

// day is a day as Friday 20 November.
export const day = (at) => written(at, { weekday: "long", day: "numeric", month: "long" }).replace(",", "");

// age is how long ago a time is, as a span; "" of none. It reads `now`.
export function age(text) {
  if (!text) return "";
  const ms = now.value - Date.parse(text);
  if (Number.isNaN(ms)) return "";
  return ms < 1000 ? "now" : span(Math.floor(ms / 1000) * 1000);
}

// ago is how long ago a time is, in words.
export const ago = (text) => (age(text) === "now" ? "just now" : `${age(text)} ago`);
