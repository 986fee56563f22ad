// Numbers and names in the form in which the page shows them.

import { count, plural } from "../../look/words.js";

export { count, plural };

const small = ["No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten"];

// sentence returns plural for the beginning of a sentence: "Five things".
export const sentence = (n, one, many = one + "s") => `${small[n] ?? count(n)} ${n === 1 ? one : many}`;

// bytes formats a size as 412 MB.
export function bytes(n) {
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (n < 1000 || unit === "GB") return `${n < 10 && unit !== "B" ? n.toFixed(1) : Math.round(n)} ${unit}`;
    n /= 1000;
  }
}

// shortId shortens a long ID by leaving out its middle.
export const shortId = (id) => (id.length <= 18 ? id : `${id.slice(0, 9)}…${id.slice(-6)}`);

// list joins names into an enumeration: "a, b and c".
export const list = (names) => (names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`);

// quoted quotes a word for a shell. It writes control characters and other invisible characters, which a terminal
// would interpret or not show, as numbers. In this form it also writes quotes as numbers, so that the result is one
// word even for a shell that does not support $'.
const unseen = /(?!\n)[\p{C}\p{Zl}\p{Zp}]/gu;
export function quoted(word) {
  if (/^[\w.,:+/@%-]+$/.test(word)) return word;
  if (word.search(unseen) < 0) return `'${word.replaceAll("'", "'\\''")}'`;
  const numbered = (c) => `\\U${c.codePointAt(0).toString(16).padStart(8, "0")}`;
  return `$'${word.replace(/[\\']/g, numbered).replace(unseen, numbered)}'`;
}

// named returns the ID of an item as the argument of a command. The sender of a message can choose the ID, even one
// that looks like a flag.
export const named = (id) => (id.startsWith("-") ? `-- ${quoted(id)}` : quoted(id));
