// The filter of the messages in three forms: in the address, as typed text, and as parameters of the command.

import { quoted } from "../words.js";

// keys maps each name that can precede a colon to the parameter of `messages list`.
const keys = {
  agent: "agent", from: "sender", to: "recipient", pair: "pair", type: "message_type", status: "status", thread: "thread_id",
  since: "since", until: "until", archived: "archived",
};

// readFilter reads the filter from the query of an address: {from: "ann", text: "disk full"}.
export function readFilter(query) {
  const filter = {};
  for (const key of [...Object.keys(keys), "text"]) if (query[key]) filter[key] = query[key];
  return filter;
}

// parse reads a typed line, such as `from:ann type:note disk full`. Values that contain spaces are in quotes.
export function parse(line) {
  const filter = {}, words = [];
  for (const part of line.match(/(?:\w+:)?"[^"]*"|\S+/g) ?? []) {
    const [, key, value] = part.match(/^(\w+):"?(.*?)"?$/s) ?? [];
    if (value && Object.hasOwn(keys, key)) filter[key] = key === "archived" ? "yes" : value;
    else words.push(part.replace(/^"(.*)"$/s, "$1"));
  }
  if (words.length) filter.text = words.join(" ");
  return filter;
}

// params returns the filter as parameters of the command.
export function params(filter) {
  const list = {};
  for (const [key, name] of Object.entries(keys)) {
    if (!filter[key]) continue;
    if (key === "pair") list.pair = filter.pair.split(",").map((name) => name.trim());
    else list[name] = key === "archived" ? true : filter[key];
  }
  if (filter.text) list.text = filter.text;
  return list;
}

// command returns the filter as a command line for a terminal.
export function command(filter) {
  const flags = { agent: "agent", from: "from", to: "to", type: "type", status: "status", thread: "thread", since: "since", until: "until" };
  let line = "mailroom messages list";
  if (filter.text) line += ` --grep ${quoted(filter.text)}`;
  for (const [key, flag] of Object.entries(flags)) if (filter[key]) line += ` --${flag} ${quoted(filter[key])}`;
  for (const name of filter.pair?.split(",") ?? []) line += ` --pair ${quoted(name.trim())}`;
  return filter.archived ? line + " --archived" : line;
}
