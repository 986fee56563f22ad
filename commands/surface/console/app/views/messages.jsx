// The messages of all agents, as a live table without end in both directions.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { run } from "../api.js";
import { useCommand } from "../data.js";
import { useKeys } from "../keys.js";
import { onEvents } from "../live.js";
import { go, route, to } from "../route.js";
import { clock } from "../time.js";
import { count, plural } from "../words.js";
import { Command, Confirm, Icon, Problem } from "../parts.jsx";
import { command, parse, readFilter } from "./filter.js";
import { Feed } from "./feed.js";
import { OverTime } from "./over-time.jsx";
import { MessageRow } from "./row.jsx";
import { useWindow } from "./window.js";

let last = null; // the list as the person left it, to which the Back button returns: {key, feed, at, y}

export function Messages() {
  const filter = readFilter(route.value.query), key = JSON.stringify(filter), totals = useTotals(filter);
  return (
    <>
      <section>
        <Head totals={totals} />
        <Filter filter={filter} key={key} />
        <Facets filter={filter} totals={totals} />
        <OverTime filter={filter} />
      </section>
      <Stream filter={filter} key={key} id={key} />
    </>
  );
}

const filtered = (filter) => Object.keys(filter).some((key) => key !== "status");
const open = (filter) => go(to(["messages"], filter));

// useTotals returns how many messages have each status. It returns them only for the list of all messages, because
// only these numbers are known without counting.
function useTotals(filter) {
  const { data } = useCommand(filtered(filter) ? null : "status", {}, { matters: (e) => e.data.old_status !== e.data.new_status });
  return filtered(filter) ? null : data?.totals;
}

function Head({ totals }) {
  const all = totals && Object.entries(totals).reduce((sum, [status, n]) => sum + (status === "archived" ? 0 : n), 0);
  return <div class="bar"><h1>Messages</h1>{totals && <span class="muted">{plural(all, "message")}{totals.archived ? `, and ${count(totals.archived)} archived` : ""}</span>}</div>;
}

const stamp = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/;

// Filter renders the search line. It shows the parts of the current filter as chips.
function Filter({ filter }) {
  const [typed, setTyped] = useState(""), input = useRef();
  useKeys({ "/": () => input.current.focus() });
  const enter = (event) => {
    event.preventDefault();
    if (typed.trim()) open({ ...filter, ...parse(typed) });
  };
  const without = (key) => open({ ...filter, [key]: undefined });
  const takeBack = (event) => {
    const keys = Object.keys(filter);
    if (event.key === "Backspace" && !typed && keys.length) without(keys.at(-1));
  };
  const [, unknown] = filter.text?.match(/(?:^|\s)(\w+):(?=\w)/) ?? [];
  return (
    <>
    <form class="filter" role="search" onSubmit={enter}>
      <Icon name="search" />
      {Object.entries(filter).map(([key, value]) => (
        <span class="chip"><em>{key}</em> <b title={value}>{stamp.test(value) ? clock(value) : value}</b>
          <button type="button" aria-label={`Remove ${key}`} onClick={() => without(key)}><Icon name="x" /></button>
        </span>
      ))}
      <input ref={input} value={typed} onInput={(e) => setTyped(e.target.value)} onKeyDown={takeBack} aria-label="Filter" autocomplete="off" spellcheck={false}
        autocapitalize="off" placeholder="agent: from: to: pair:a,b type: status: thread: since:1h until: archived:yes or a word" />
      <kbd>/</kbd>
    </form>
    {unknown && <p class="muted small">{unknown} is not a valid filter, so the list shows messages with the text “{filter.text}”.</p>}
    </>
  );
}

const facets = [["All", ""], ["Needs a person", "dead"], ["Pending", "pending"], ["Retry", "retry"], ["Delivered", "delivered"], ["Failed", "failed"], ["Expired", "expired"], ["Canceled", "cancelled"]];

function Facets({ filter, totals }) {
  const number = (status) => (status === "" ? null : status === "dead" ? (totals.failed ?? 0) + (totals.expired ?? 0) : totals[status] ?? 0);
  return (
    <nav class="facets" aria-label="Status">
      {facets.map(([word, status]) => {
        const n = totals ? number(status) : null;
        return (
          <a href={to(["messages"], { ...filter, status })} class={status === "dead" && n ? "bad" : undefined} aria-current={(filter.status ?? "") === status ? "true" : undefined}>
            {word}{n !== null && <b>{count(n)}</b>}
          </a>
        );
      })}
    </nav>
  );
}

// Stream renders the table. The table contains only the visible rows and some rows around them.
function Stream({ filter, id }) {
  const feed = useMemo(() => (last?.key === id ? last.feed : new Feed(filter)), []);
  const [at, setAt] = useState(last?.key === id ? last.at : null); // seq of the row that j and k have marked
  const [picked, setPicked] = useState(new Set()), [asks, setAsks] = useState(false);
  const body = useRef();
  feed.version.value; // renders the table again when it changes
  const seen = useWindow(body, feed.known + (feed.complete ? 0 : 1));
  const latest = useRef({});
  latest.current = { at, seen };

  useEffect(() => {
    const back = last?.key === id ? last.y : null;
    if (back === null) feed.start();
    else {
      scrollTo(0, back);
      Promise.all([feed.refresh(feed.rows.map((row) => row.message_id), () => latest.current.seen.from), feed.look()]).then(() => feed.version.value++);
    }
    last = { key: id, feed, at, y: back ?? 0 };
    const scrolled = () => location.pathname === "/messages" && (last.y = scrollY);
    addEventListener("scroll", scrolled, { passive: true });
    addEventListener("leave", scrolled); // the last scroll event may not have arrived yet
    return () => {
      removeEventListener("scroll", scrolled);
      removeEventListener("leave", scrolled);
    };
  }, []);
  useLayoutEffect(() => {
    if (last?.feed === feed) last.at = at;
  }, [at]);
  useLayoutEffect(() => feed.show(seen.from, seen.to));
  useLive(feed, () => latest.current.at === null && scrollY < 8, () => latest.current.seen.from);

  const rows = feed.rows, place = rows.findIndex((row) => row.seq === at), marked = rows[place];
  const move = (by) => {
    const next = place < 0 ? Math.max(0, seen.first - feed.base) : Math.min(rows.length - 1, Math.max(0, place + by));
    if (!rows[next]) return;
    document.activeElement?.blur(); // so that Enter opens the row instead of the element that was pressed before
    setAt(rows[next].seq);
    seen.reveal(feed.base + next);
  };
  const admit = () => {
    feed.admit();
    setAt(null);
    scrollTo(0, 0);
  };
  const pick = (row) => {
    const set = new Set(picked);
    if (!set.delete(row.message_id)) set.add(row.message_id);
    setPicked(set);
  };
  const openRow = (row) => go(to(["messages", row.message_id]));
  useKeys({
    j: () => move(1), k: () => move(-1), ArrowDown: () => (at === null ? false : move(1)), ArrowUp: () => (at === null ? false : move(-1)),
    Home: () => seen.jump(0), End: () => seen.jump(feed.known - 1),
    Enter: (e) => (marked && !e.target.closest("a, button") ? openRow(marked) : false), " ": (e) => (marked && !e.target.closest("button") ? pick(marked) : false),
    ".": admit, Escape: () => (setAt(null), setPicked(new Set())), r: () => (picked.size ? setAsks(true) : false),
  }, [["/", "filter"], ["j k", "down, up"], ["Home End", "first, last"], ["Enter", "open"], ["Space", "mark a row"], [".", "show new rows"], ["r", "replay the marked rows"], ["Esc", "clear marks"]]);

  const from = Math.max(seen.from, feed.base), shown = rows.slice(from - feed.base, Math.max(0, seen.to - feed.base));
  const above = from - seen.shift, below = feed.known - from - shown.length;
  const n = feed.fresh.length, keys = useElements(shown);
  return (
    <section class="stream">
      <Picked ids={picked} rows={rows} onClear={() => setPicked(new Set())} onReplay={() => setAsks(true)} />
      <table aria-rowcount={feed.complete ? feed.known : -1} aria-busy={feed.loading}>
        <colgroup><col class="k-st" /><col class="k-time" /><col class="k-pair" /><col class="k-type" /><col /><col class="k-thread" /><col class="k-try" /><col class="k-wait" /></colgroup>
        <thead>
          <tr><th>Status</th><th>Sent</th><th>From, to</th><th>Type</th><th>Text</th><th>Thread</th><th class="num">Tries</th><th class="num">Took</th></tr>
          {feed.rows.length + n > 0 && (
            <tr class="fresh"><th colSpan={8}>
              {n > 0 ? <button type="button" onClick={admit}><Icon name="up" />{count(n)}{feed.freshMore ? "+" : ""} new <kbd>.</kbd></button>
                : <span class="none">up to date</span>}
            </th></tr>
          )}
        </thead>
        <tbody ref={body}>
          <Gap rows={above} height={seen.height} />
          {shown.map((row, i) => (
            <MessageRow key={keys.get(row.seq)} row={row} index={from + i + 1} marked={row.seq === at} picked={picked.has(row.message_id)} wanted={filter.text} onPick={pick} />
          ))}
          <Gap rows={below} height={seen.height} />
        </tbody>
      </table>
      <Problem failure={feed.failure} retry={feed.failure?.code === "invalid_params" ? undefined : () => feed.retry()} />
      {feed.failure?.code === "invalid_params" && <p class="foot"><button class="btn" type="button" onClick={() => open({})}>{Object.keys(filter).length === 1 ? "Remove this filter" : "Remove all filters"}</button></p>}
      <Foot feed={feed} filter={filter} />
      {asks && <Replay ids={[...picked]} onDone={(done) => (setAsks(false), done && setPicked(new Set()))} />}
    </section>
  );
}

// useElements returns the key of the element for each visible row. A row keeps its element. If most rows are new, as
// in a flood of messages, the new rows reuse the elements of the rows that they replace, because the browser creates
// elements much more slowly.
function useElements(rows) {
  const latest = useRef({ keys: new Map(), next: 0 }).current, { keys } = latest;
  const flood = rows.filter((row) => keys.has(row.seq)).length < rows.length / 2, free = [...keys.values()];
  latest.keys = new Map(rows.map((row, i) => [row.seq, (flood ? free[i] : keys.get(row.seq)) ?? latest.next++]));
  return latest.keys;
}

const settle = 500; // milliseconds between two looks for new messages
const again = 2000; // milliseconds until a failed look is repeated

// useLive follows the events. New rows appear by themselves if the person is at the top of the list, and wait
// otherwise. Changed rows change in place.
function useLive(feed, atTop, seen) {
  useEffect(() => {
    const changed = new Set();
    let timer = null, all = false, born = [], acted = 0, ended = false;
    const act = async () => {
      timer = null;
      acted = performance.now();
      const ids = all ? feed.rows.map((row) => row.message_id) : [...changed], sent = born;
      all = false;
      changed.clear();
      born = [];
      const [known, left] = await Promise.all([feed.look(sent), feed.refresh(ids, seen)]);
      for (const id of left) changed.add(id);
      if (!ended && (!known || left.length)) timer ??= setTimeout(act, again);
      if (feed.fresh.length && atTop()) feed.admit();
      else feed.version.value++;
    };
    const stop = onEvents((list, more) => {
      if (!list.length) feed.retry();
      for (const { event, data } of list) {
        changed.add(data.message_id);
        if ((event === "created" || event === "adopted") && data.seq) born.push(data.seq);
      }
      all ||= !list.length || more > 0;
      timer ??= setTimeout(act, Math.max(0, acted + settle - performance.now()));
    });
    return () => {
      ended = true;
      stop();
      clearTimeout(timer);
    };
  }, []);
}

// Gap takes the place of rows that are not rendered. Its height is an attribute of an image, because the page allows
// no inline styles.
const Gap = ({ rows, height }) => (rows > 0 ? <tr class="gap" aria-hidden="true"><td colSpan={8}><svg width="1" height={rows * height} /></td></tr> : null);

function Foot({ feed, filter }) {
  if (feed.failure) return null;
  if (feed.waits) {
    return (
      <p class="foot muted">Searched back to {clock(feed.asFar)}, and found no more matches. <button class="link" type="button" onClick={() => feed.searchOn()}>Search further back</button></p>
    );
  }
  if (feed.loading) return <p class="foot muted" aria-live="polite">{feed.asFar ? `Searching before ${clock(feed.asFar)}…` : "Loading…"}</p>;
  if (!feed.complete) return <p class="foot" />;
  if (!feed.known && !Object.keys(filter).length) {
    return <div class="empty"><p>There are no messages yet. To send a message to the operator (you), run:</p><Command text="mailroom send operator 'hello'" /></div>;
  }
  if (!feed.known) return <div class="empty"><p>No messages match.{filter.archived ? "" : <> The list does not include archived messages. <a class="link" href={to(["messages"], { ...filter, archived: "yes" })}>Include archived messages</a></>}</p></div>;
  return <div class="foot muted"><p>{plural(feed.known, "message")} in total. In a terminal:</p><Command text={command(filter)} /></div>;
}

// Picked shows how many rows are marked, and the actions for them.
function Picked({ ids, rows, onClear, onReplay }) {
  if (!ids.size) return null;
  const dead = rows.filter((row) => ids.has(row.message_id) && (row.status === "failed" || row.status === "expired")).length;
  return (
    <div class="acts picked" role="status">
      <b>{plural(ids.size, "message")} marked</b>
      <button class="btn" type="button" disabled={!dead} onClick={onReplay}><Icon name="again" />Replay… <kbd>r</kbd></button>
      <button class="btn quiet" type="button" onClick={onClear}>Clear marks</button>
      {!dead && <span class="why-not">you can replay only failed or expired messages</span>}
    </div>
  );
}

function Replay({ ids, onDone }) {
  const act = async () => {
    let failure = null;
    for (const message_id of ids) {
      try {
        await run("dead_letters_replay", { message_id });
      } catch (error) {
        if (error.code !== "conflict") failure ??= error;
      }
    }
    if (failure) throw failure;
  };
  return (
    <Confirm title={`Replay ${plural(ids.length, "message")}?`} word="Replay" act={act} onDone={onDone}>
      <p>Each message becomes pending again and gets as many attempts as a new message. Messages that did not fail or expire stay unchanged.</p>
    </Confirm>
  );
}
