// Times in the form in which people read them. `now` changes once a second while the page is visible, so that texts
// such as "2 min ago" stay correct.

import { signal } from "@preact/signals";
import { span } from "../../look/time.js";

export { span };

export const now = signal(Date.now());
setInterval(() => {
  if (!document.hidden) now.value = Date.now();
}, 1000);
document.addEventListener("visibilitychange", () => (now.value = Date.now()));

// utc is true if times are shown in UTC, and false if they are shown in local time.
export const utc = signal(localStorage.getItem("utc") === "yes");
export function toggleUTC() {
  utc.value = !utc.value;
  localStorage.setItem("utc", utc.value ? "yes" : "no");
}

const zone = () => (utc.value ? "UTC" : undefined);
const made = new Map(); // by options and time zone; a DateTimeFormat is slow to create
function format(options) {
  const key = JSON.stringify(options) + zone();
  if (!made.has(key)) made.set(key, new Intl.DateTimeFormat("en-GB", { ...options, timeZone: zone() }));
  return made.get(key);
}

// written formats a time. It returns text that is not a time unchanged, because programs can write any text into the
// tables.
function written(text, options) {
  const at = new Date(text);
  return Number.isNaN(+at) ? String(text ?? "") : format(options).format(at);
}

// clock formats a time of today as 15:18:04, and any other time as 20 Nov 15:18.
export function clock(text, { seconds = true } = {}) {
  const today = { dateStyle: "short" };
  if (written(text, today) === written(now.value, today)) return written(text, { hour: "2-digit", minute: "2-digit", ...(seconds ? { second: "2-digit" } : {}) });
  return written(text, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" }).replace(",", "");
}

// precise formats a time of day with milliseconds.
export const precise = (text) => written(text, { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 });

// day formats a day as Friday 20 November.
export const day = (at) => written(at, { weekday: "long", day: "numeric", month: "long" }).replace(",", "");

// age returns how long ago a time was, as a span, or "" if there is no time. It depends on `now`.
export function age(text) {
  if (!text) return "";
  const ms = now.value - Date.parse(text);
  if (Number.isNaN(ms)) return "";
  return ms < 1000 ? "now" : span(Math.floor(ms / 1000) * 1000);
}

// ago returns how long ago a time was, in words.
export const ago = (text) => (age(text) === "now" ? "just now" : `${age(text)} ago`);
