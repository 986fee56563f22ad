// The rows of a list of messages that is too long to be held. Of the rows that have been seen only some are there; of the others it knows
// how many they are, and where to find them again.

import { signal } from "@preact/signals";
import { run } from "../api.js";
import { shown } from "../live.js";
import { params } from "./filter.js";

const page = 400; // rows that one call asks for
const most = 4000; // rows that are held
const atOnce = 500; // rows that one call refreshes
const patience = 20; // calls in a row that may find nothing before a person is asked whether to go on

export class Feed {
  rows = []; // newest first
  base = 0; // place of rows[0]: how many come before it
  known = 0; // how many rows are known, held or not
  complete = false; // nothing is behind them
  asFar = ""; // when the message was sent to which the search has come
  waits = false; // a person is to say whether to search on
  failure = null;
  fresh = []; // those that have come since, newest first
  freshMore = false; // and there are more
  version = signal(0); // changes with anything of the above

  #filter;
  #marks = []; // [place, seq] of some rows, in order
  #top = 0; // seq of the newest row that has a place
  #behind = null; // seq from which the search goes on
  #busy = null;
  #looked = 0; // seq up to which `look` has looked, where it found nothing
  #born = []; // seqs of messages that were sent since it looked last
  #checking = null; // the look that is under way
  #queued = false; // another one waits for it, or for what is loaded
  #generation = 0;

  constructor(filter) {
    this.#filter = params(filter);
  }

  // start loads the newest rows, and forgets all others.
  async start() {
    this.#generation++;
    Object.assign(this, { base: 0, known: 0, complete: false, waits: false, fresh: [], freshMore: false });
    this.#marks = [];
    this.#behind = null;
    this.#busy = null;
    const before = this.rows;
    this.rows = [];
    this.#top = this.#looked = 0;
    this.#born = [];
    await this.more(before);
  }

  // show has the rows from one place up to another loaded, as soon as that can be.
  show(from, to) {
    if (this.#busy || this.failure) return;
    const end = this.base + this.rows.length;
    if (from < this.base - 2 * page || (from > end + 2 * page && end < this.known)) this.#jump(from);
    else if (this.base > 0 && from - page / 2 < this.base) this.#newer();
    else if (to + page / 2 > end && !(this.complete && end === this.known) && !this.waits) this.more();
  }

  // more loads what is behind the rows that are held. placeholder stands there until then.
  more(placeholder) {
    return this.#load(async () => {
      const end = this.base + (placeholder ? 0 : this.rows.length), atEnd = end >= this.known;
      if (placeholder) this.rows = placeholder;
      if (placeholder) this.known = placeholder.length;
      const before = atEnd ? this.#behind : this.rows.at(-1).seq;
      const answer = await this.#find(before ? { before } : {});
      if (!answer) return;
      this.rows = placeholder ? answer.messages : this.rows.concat(answer.messages);
      this.#top ||= answer.messages[0]?.seq ?? 0;
      if (answer.messages.length) this.#mark(end, answer.messages[0].seq);
      if (atEnd) {
        this.known = this.base + this.rows.length;
        this.#behind = answer.next ?? null;
        this.complete = answer.complete;
        this.waits = !answer.complete && !answer.messages.length;
      } else if (!answer.messages.length) this.known = end; // they are gone
      const tooMany = this.rows.length - most;
      if (tooMany > 0) {
        this.rows = this.rows.slice(tooMany);
        this.base += tooMany;
      }
    });
  }

  // retry asks again for what could not be asked.
  retry() {
    if (!this.failure) return;
    if (!this.known) return this.start();
    this.failure = null;
    this.version.value++; // whereupon the view has loaded what it shows
  }

  // searchOn goes on with a search that has found nothing for long.
  searchOn() {
    this.waits = false;
    return this.more();
  }

  // #newer loads what comes before the rows that are held.
  #newer() {
    return this.#load(async () => {
      const answer = await this.#find({ oldest_first: true, after: this.rows[0].seq, before: this.#top + 1 });
      if (!answer) return;
      const found = answer.messages.reverse();
      this.rows = found.concat(this.rows).slice(0, most);
      this.base = answer.complete || found[0]?.seq === this.#top ? 0 : Math.max(1, this.base - found.length); // rows may have come or gone meanwhile
      this.known = Math.max(this.known, this.base + this.rows.length);
    });
  }

  // #jump holds the rows at a place that was seen before, instead of those that it holds.
  #jump(place) {
    return this.#load(async () => {
      const [at, seq] = this.#marks.findLast(([at]) => at <= place) ?? [0, this.#top];
      const answer = await this.#find({ before: seq + 1 });
      if (!answer) return;
      this.rows = answer.messages;
      this.base = at;
    });
  }

  #mark(place, seq) {
    if (place >= (this.#marks.at(-1)?.[0] ?? -1) + page / 2) this.#marks.push([place, seq]);
  }

  async #load(work) {
    if (this.#busy) return this.#busy;
    const generation = this.#generation;
    this.#busy = (async () => {
      try {
        this.failure = null;
        await work();
      } catch (failure) {
        if (generation === this.#generation) this.failure = failure;
      }
      if (generation !== this.#generation) return;
      this.#busy = null;
      this.version.value++;
    })();
    this.version.value++;
    return this.#busy;
  }

  // #find asks for rows until there are some, or none are left, or that takes long. It returns null if the feed was begun anew meanwhile.
  async #find(where) {
    const generation = this.#generation;
    for (let calls = 1; ; calls++) {
      await shown();
      const answer = await run("messages_list", { ...this.#filter, limit: page, ...where });
      if (generation !== this.#generation) return null;
      this.asFar = answer.as_far ?? "";
      if (answer.messages.length || answer.complete || calls === patience) return answer;
      where = { ...where, [where.oldest_first ? "after" : "before"]: answer.next };
      this.version.value++;
    }
  }

  get loading() {
    return this.#busy !== null;
  }

  // look finds out what has come since, once nothing is loaded or looked for any more, and returns whether that is known; version is for the
  // caller to change, who may have more to do. born are the seqs of messages that were sent; one may be lower than others that have come
  // before it, since on a server whoever commits first is seen first.
  async look(born = []) {
    if (this.freshMore) return true;
    this.#born.push(...born);
    if (this.#queued) return true; // which looks for these, too
    this.#queued = true;
    while (this.#busy || this.#checking) await (this.#busy ?? this.#checking);
    this.#queued = false;
    this.#checking = this.#look();
    const known = await this.#checking;
    this.#checking = null;
    return known;
  }

  async #look() {
    const after = Math.max(this.fresh[0]?.seq ?? 0, this.#top, this.#looked), late = this.#late(after);
    this.#born = [];
    try {
      const answer = await this.#find({ oldest_first: true, ...(after ? { after } : {}) });
      const more = late.length && (await this.#find({ after: Math.min(...late) - 1, before: Math.max(...late) + 1 }));
      if (answer) {
        this.#looked = answer.next ?? 0;
        this.fresh = answer.messages.reverse().concat(this.fresh);
        this.freshMore = this.fresh.length >= (answer.complete ? most : page);
        if (more) this.fresh = sorted(this.fresh.concat(more.messages.filter((row) => late.includes(row.seq))));
      }
      return true;
    } catch {
      this.#born.push(...late);
      return false;
    }
  }

  // #late returns the seqs of messages that were sent, are behind one up to which all was known, and are not held where they should be.
  #late(known) {
    const end = this.rows.at(-1)?.seq ?? 0, held = new Set(this.rows.concat(this.fresh).map((row) => row.seq));
    return this.base > 0 ? [] : this.#born.filter((seq) => seq <= known && (seq > end || this.complete) && !held.has(seq));
  }

  // admit puts what has come to its place, most of it before the rows.
  admit() {
    if (this.freshMore || this.base > 0) return this.start();
    const come = this.fresh;
    if (!come.length) return;
    this.rows = sorted(come.concat(this.rows));
    this.known += come.length;
    this.#top = this.rows[0].seq;
    this.#marks = [[0, this.#top], ...this.#marks.map(([at, seq]) => [at + come.filter((row) => row.seq > seq).length, seq])];
    this.fresh = [];
    if (this.rows.length > most) this.rows.length = most;
    this.version.value++;
  }

  // refresh asks how rows are now, each at its place. One call takes only so many: those from the place seen() on come first, and version
  // changes between two calls. After the last it is for the caller to change. It returns those of which it could not find out.
  async refresh(ids, seen) {
    const left = new Set(ids);
    for (let calls = 0; ; calls++) {
      const at = Math.max(0, seen() - this.base);
      const held = this.rows.slice(at).concat(this.rows.slice(0, at)).map((row) => row.message_id).filter((id) => left.has(id)).slice(0, atOnce);
      if (!held.length) return [];
      if (calls) this.version.value++;
      for (const id of held) left.delete(id);
      await shown();
      try {
        const answer = await run("messages_list", { message_ids: held });
        const now = new Map(answer.messages.map((row) => [row.seq, row]));
        this.rows = this.rows.map((row) => (now.has(row.seq) ? { ...now.get(row.seq), says: row.says } : row));
      } catch {
        return [...held, ...left];
      }
    }
  }
}

const sorted = (rows) => rows.sort((a, b) => b.seq - a.seq);
