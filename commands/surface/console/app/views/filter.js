// The filter of the messages: as the address has it, as one types it, and as the command wants it.

import { quoted } from "../words.js";

// keys are what can stand before a colon: the parameter of `messages list` that each becomes.
const keys = {
  agent: "agent", from: "sender", to: "recipient", pair: "pair", type: "message_type", status: "status", thread: "thread_id",
  since: "since", until: "until", archived: "archived",
};

// readFilter takes the filter from the query of an address: {from: "ann", text: "disk full"}.
export function readFilter(query) {
  const filter = {};
  for (const key of [...Object.keys(keys), "text"]) if (query[key]) filter[key] = query[key];
  return filter;
}

// parse reads a typed line, such as `from:ann type:note disk full`. What has a space in it stands in quotes.
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

// params are those of the command.
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

// command is the filter as a line for a terminal.
export function command(filter) {
  const flags = { agent: "agent", from: "from", to: "to", type: "type", status: "status", thread: "thread", since: "since", until: "until" };
  let line = "mailroom messages list";
  if (filter.text) line += ` --grep ${quoted(filter.text)}`;
  for (const [key, flag] of Object.entries(flags)) if (filter[key]) line += ` --${flag} ${quoted(filter[key])}`;
  for (const name of filter.pair?.split(",") ?? []) line += ` --pair ${quoted(name.trim())}`;
  return filter.archived ? line + " --archived" : line;
}
