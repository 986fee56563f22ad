// The rows of a list of messages that is too long to keep in memory. Of the rows seen so far, the feed keeps only
// some. For the others, it keeps their number and where to find them again.

import { signal } from "@preact/signals";
import { run } from "../api.js";
import { shown } from "../live.js";
import { params } from "./filter.js";

const page = 400; // rows requested by one call
const most = 4000; // rows kept in memory
const atOnce = 500; // rows refreshed by one call
const patience = 20; // consecutive calls without a result before the feed asks the person whether to continue

export class Feed {
  rows = []; // newest first
  base = 0; // index of rows[0] in the whole list
  known = 0; // number of rows found so far, in memory or not
  complete = false; // there are no rows after the known rows
  asFar = ""; // when the message was sent that the search has reached
  waits = false; // the person must decide whether to continue the search
  failure = null;
  fresh = []; // messages sent since the rows were loaded, newest first
  freshMore = false; // there are more than these
  version = signal(0); // changes when any of the above changes

  #filter;
  #marks = []; // [index, seq] of some rows, in order
  #top = 0; // seq of the newest row in the list
  #behind = null; // seq before which the search continues
  #busy = null;
  #looked = 0; // seq that `look` reached without finding a message
  #born = []; // seqs of messages sent since the last look
  #checking = null; // the look in progress
  #queued = false; // another look waits for the look or the load in progress
  #generation = 0;

  constructor(filter) {
    this.#filter = params(filter);
  }

  // start loads the newest rows and drops all others.
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

  // show loads the rows between two indexes as soon as possible.
  show(from, to) {
    if (this.#busy || this.failure) return;
    const end = this.base + this.rows.length;
    if (from < this.base - 2 * page || (from > end + 2 * page && end < this.known)) this.#jump(from);
    else if (this.base > 0 && from - page / 2 < this.base) this.#newer();
    else if (to + page / 2 > end && !(this.complete && end === this.known) && !this.waits) this.more();
  }

  // more loads the rows after the rows in memory. Until they arrive, the list shows placeholder.
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
      } else if (!answer.messages.length) this.known = end; // the rows were deleted
      const tooMany = this.rows.length - most;
      if (tooMany > 0) {
        this.rows = this.rows.slice(tooMany);
        this.base += tooMany;
      }
    });
  }

  // retry repeats a failed request.
  retry() {
    if (!this.failure) return;
    if (!this.known) return this.start();
    this.failure = null;
    this.version.value++; // the view then requests the rows that it shows
  }

  // searchOn continues a search that stopped after many calls without a result.
  searchOn() {
    this.waits = false;
    return this.more();
  }

  // #newer loads the rows before the rows in memory.
  #newer() {
    return this.#load(async () => {
      const answer = await this.#find({ oldest_first: true, after: this.rows[0].seq, before: this.#top + 1 });
      if (!answer) return;
      const found = answer.messages.reverse();
      this.rows = found.concat(this.rows).slice(0, most);
      // Rows may have been added or deleted in the meantime.
      this.base = answer.complete || found[0]?.seq === this.#top ? 0 : Math.max(1, this.base - found.length);
      this.known = Math.max(this.known, this.base + this.rows.length);
    });
  }

  // #jump replaces the rows in memory with the rows at an index that was seen before.
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

  // #find requests rows until it finds some, until none are left, or until it has made many calls. It returns null if
  // the feed was restarted in the meantime.
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

  // look finds the messages that were sent since the last look, after loads and looks in progress have ended. It
  // returns whether it succeeded. The caller changes version, because it may have more changes to make. born is a
  // list of seqs of sent messages. A seq may be lower than the seqs of messages that arrived before it, because on a
  // server, a message becomes visible when its transaction commits.
  async look(born = []) {
    if (this.freshMore) return true;
    this.#born.push(...born);
    if (this.#queued) return true; // the waiting look also looks for these
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

  // #late returns the seqs of sent messages that are not above `known`, belong among the rows in memory, and are
  // missing there.
  #late(known) {
    const end = this.rows.at(-1)?.seq ?? 0, held = new Set(this.rows.concat(this.fresh).map((row) => row.seq));
    return this.base > 0 ? [] : this.#born.filter((seq) => seq <= known && (seq > end || this.complete) && !held.has(seq));
  }

  // admit adds the new messages to the rows, most of them at the top.
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

  // refresh requests the current state of rows and updates them in place. One call refreshes a limited number of
  // rows. The rows from index seen() on come first, and version changes between two calls. The caller changes version
  // after the last call. refresh returns the IDs of the rows that it could not refresh.
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
