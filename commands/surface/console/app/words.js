// Numbers and names as they are shown.

import { count, plural } from "../../look/words.js";

export { count, plural };

const small = ["No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten"];

// sentence is plural at the beginning of one: "Five things".
export const sentence = (n, one, many = one + "s") => `${small[n] ?? count(n)} ${n === 1 ? one : many}`;

// bytes is a size as 412 MB.
export function bytes(n) {
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (n < 1000 || unit === "GB") return `${n < 10 && unit !== "B" ? n.toFixed(1) : Math.round(n)} ${unit}`;
    n /= 1000;
  }
}

// shortId leaves out the middle of a long id.
export const shortId = (id) => (id.length <= 18 ? id : `${id.slice(0, 9)}…${id.slice(-6)}`);

// list joins names as people do: "a, b and c".
export const list = (names) => (names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`);

// quoted is a word as a shell takes it. What a terminal would act on, or would not show in its place, is written as a number, and so are quotes
// then: it is one word also for a shell that knows no $'.
const unseen = /(?!\n)[\p{C}\p{Zl}\p{Zp}]/gu;
export function quoted(word) {
  if (/^[\w.,:+/@%-]+$/.test(word)) return word;
  if (word.search(unseen) < 0) return `'${word.replaceAll("'", "'\\''")}'`;
  const numbered = (c) => `\\U${c.codePointAt(0).toString(16).padStart(8, "0")}`;
  return `$'${word.replace(/[\\']/g, numbered).replace(unseen, numbered)}'`;
}

// named is the id of something as the argument of a command. Whoever sends a message may choose its id, also one that looks like a flag.
export const named = (id) => (id.startsWith("-") ? `-- ${quoted(id)}` : quoted(id));
