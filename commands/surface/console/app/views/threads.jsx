// The threads of all agents: a list, and a page for each thread in the form of a conversation.

import { useRef, useState } from "preact/hooks";
import { run } from "../api.js";
import { useCommand } from "../data.js";
import { useKeys } from "../keys.js";
import { go, route, to } from "../route.js";
import { clock, day, span } from "../time.js";
import { Agent, Empty, Loaded, MessageLink, State, When } from "../parts.jsx";
import { count, plural, quoted, sentence } from "../words.js";
import { Search, useMarked } from "./agents.jsx";
import { Written } from "./payload.jsx";
import { standing } from "../standing.js";
import { ThreadActs } from "./thread-change.jsx";

const listed = 50; // threads on a page of the list
const shown = 50; // posts shown at first, and posts added at each step

export function Threads({ rest }) {
  const list = useThreads();
  return rest.length ? <Split list={list} id={rest[0]} /> : <List list={list} />;
}

// useThreads requests the threads that the address selects, in the order of their last posts.
function useThreads() {
  const { q: search = "", status = "", from = "" } = route.value.query;
  const list = useCommand("list_threads", { all: true, limit: listed, ...(search && { search }), ...(status && { status }), ...(from && { continue: from }) }, { every: 30_000 });
  const threads = (list.data?.threads ?? []).toSorted((a, b) => (lastAt(a) < lastAt(b) ? 1 : -1));
  return { ...list, threads, open: threads.filter((t) => t.status === "open").length, whole: list.data && !list.data.more && !from && !search && status !== "closed" };
}

const lastAt = (thread) => thread.last_post?.created_at ?? thread.created_at;

// said returns the beginning of the last post of a thread.
const said = ({ last_post: last }) => (last ? `${last.sender}: ${last.text || "(no text)"}` : "no posts yet");

const statuses = [["", "All"], ["open", "Open"], ["closed", "Closed"]];

function Facets() {
  const { status = "" } = route.value.query;
  return <div class="facets">{statuses.map(([value, word]) => <a href={to(["threads"], { ...route.value.query, status: value, from: "" })} aria-current={value === status ? "true" : undefined}>{word}</a>)}</div>;
}

// headline returns how many threads are open. If the list does not contain all threads, the numbers refer to
// the threads in the list.
function headline({ whole, threads, open }) {
  if (whole) return open ? `${sentence(open, "thread is", "threads are")} open` : "No thread is open";
  return threads.length ? `${sentence(threads.length, "thread")} shown, ${open ? count(open) : "none"} open` : "Threads";
}

function List({ list }) {
  const { q: search = "", status = "", from = "" } = route.value.query;
  const [marked, mark] = useMarked(list.threads.map((t) => to(["threads", t.thread_id])));
  return (
    <>
      <section class="lede">
        <h1>{headline(list)}</h1>
        <p>In a thread, several agents talk to each other. An agent that a post mentions also gets the post as a message.</p>
      </section>
      <Search value={search} label="Find a thread by its name" />
      <Facets />
      <Loaded of={list}>{(data) => (
        <>
          {!list.threads.length && (search || status || data.more
            ? <Empty>{data.more ? "No thread on this page matches. Try the next page." : "No threads match."}</Empty>
            : <Empty command="mailroom coral create_thread --as NAME --thread-name 'release 2.4' --participant-ids OTHER">There are no threads yet. Agents create threads with their tools. To create a thread for an agent, run:</Empty>)}
          <table class="roster">
            {list.threads.length > 0 && <thead><tr><th>Thread</th><th>State</th><th class="wide-c">Participants</th><th class="wide-c">Last post</th><th class="num">When</th></tr></thead>}
            <tbody>{list.threads.map((thread, i) => (
              <tr key={thread.thread_id} class={i === marked ? "at" : undefined} aria-selected={i === marked} onClick={() => mark(i)}>
                <td><a class="agent" href={to(["threads", thread.thread_id])}>{thread.name}</a></td>
                <td><Status thread={thread} /></td>
                <td class="wide-c cut">{thread.participants.join(", ")}</td>
                <td class="wide-c cut muted">{said(thread)}</td>
                <td class="num muted"><When at={lastAt(thread)} seconds={false} /></td>
              </tr>
            ))}</tbody>
          </table>
          <p class="pages">{from && <a class="link" href={to(["threads"], { ...route.value.query, from: "" })}>First page</a>}{data.more && <a class="link" href={to(["threads"], { ...route.value.query, from: data.continue })}>Next page</a>}</p>
        </>
      )}</Loaded>
    </>
  );
}

const Status = ({ thread }) => (thread.status === "open" ? <State name="working" word="open" /> : <State name="stopped" word="closed" title={thread.summary} />);

function Split({ list, id }) {
  return (
    <div class="split detail bleed">
      <section class="list">
        <header><h2>Threads</h2><a class="link" href={to(["threads"], route.value.query)}>{list.whole && list.open ? `${count(list.open)} open` : "All"}</a></header>
        <ul>{list.threads.map((thread) => (
          <li key={thread.thread_id}>
            <a href={to(["threads", thread.thread_id], route.value.query)} aria-current={thread.thread_id === id ? "true" : undefined}>
              <span class="r"><b>{thread.name}</b><When at={lastAt(thread)} seconds={false} /></span>
              <span class="cut">{thread.status === "closed" ? `closed${thread.summary ? `: ${thread.summary}` : ""}` : said(thread)}</span>
            </a>
          </li>
        ))}</ul>
      </section>
      <section class="open"><ThreadPage key={id} id={id} /></section>
    </div>
  );
}

function ThreadPage({ id }) {
  const matters = ({ data }) => !data?.thread_id || data.thread_id === id;
  const newest = useCommand("read_thread", { thread_id: id, newest: true, limit: shown }, { matters });
  const copies = useCommand("messages_list", { thread_id: id, archived: true, limit: 500 }, { matters }), fates = new Map((copies.data?.messages ?? []).map((row) => [copyOf(row, row.recipient), row]));
  const room = useCommand("room", {}, { matters: () => false, every: 30_000 });
  // talk is the shown part of the conversation. continue is the position of earlier posts, "" if there are none, and
  // null until the person asks for earlier posts.
  const talk = useRef({ posts: [], continue: null }).current;
  const [failure, setFailure] = useState(null), [, redraw] = useState();
  useKeys({ Escape: () => go("/threads") }, [["Escape", "all threads"]]);
  if (newest.failure?.code === "not_found") return <section class="lede"><h1>There is no thread {id}</h1><p>The thread might be in another database. <a href="/threads">All threads</a></p></section>;
  const older = async () => {
    const from = (talk.continue ??= newest.data.continue);
    try {
      const more = await run("read_thread", { thread_id: id, newest: true, limit: shown, continue: from });
      if (talk.continue === from) Object.assign(talk, { posts: [...more.posts, ...talk.posts], continue: more.continue ?? "" });
      setFailure(null);
    } catch (error) {
      setFailure(error);
    }
    redraw({});
  };
  return (
    <Loaded of={newest}>{(thread) => {
      join(talk, thread.posts);
      const { posts } = talk, more = talk.continue === null ? thread.more : talk.continue !== "";
      return (
        <>
          <Head thread={thread} members={room.data?.agents ?? []} reload={newest.reload} />
          {failure && <p class="bad">{failure.message}</p>}
          {more && <p class="earlier"><button class="btn" type="button" onClick={older}>Earlier posts</button></p>}
          {posts.length ? <ol class="talk">{posts.map((post, i) => <Post key={post.message_id} post={post} before={posts[i - 1]} fates={fates} />)}</ol>
            : <Empty command={`mailroom coral send_message --as ${quoted(thread.participants[0] ?? "NAME")} --thread-id ${quoted(thread.thread_id)} --content 'hello'`}>There are no posts yet.</Empty>}
        </>
      );
    }}</Loaded>
  );
}

// join adds the newest posts to the shown part. Earlier posts that the person asked for stay, unless more new posts
// arrived than one response contains, because the posts between them are then unknown.
function join(talk, newest) {
  const at = talk.continue === null ? -1 : talk.posts.findIndex((post) => post.message_id === newest[0]?.message_id);
  if (at < 0) Object.assign(talk, { posts: newest, continue: null });
  else talk.posts = [...talk.posts.slice(0, at), ...newest];
}

// copyOf returns a key that relates a post to the message of an agent that the post mentions. Both have the
// same sender and time.
const copyOf = ({ sender, created_at: at }, recipient) => `${sender} ${at} ${recipient}`;

function Head({ thread, members, reload }) {
  const closed = thread.status !== "open";
  return (
    <div class="lede">
      <div class="bar level"><h1>{thread.name}</h1>{!closed && <ThreadActs thread={thread} reload={reload} />}</div>
      <p class="people">
        {closed ? <State name="stopped" word={`closed since ${clock(thread.closed_at, { seconds: false })}`} /> : <State name="working" word={`open since ${clock(thread.created_at, { seconds: false })}`} />}
        <span class="muted">session {thread.session_id} · started by {thread.participants[0] ?? "an agent that has left"}</span>
      </p>
      {closed && <p>{thread.summary ? `Outcome: ${thread.summary}` : "The thread was closed without a recorded outcome."}</p>}
      <p class="people">{thread.participants.length ? thread.participants.map((name) => <Participant key={name} name={name} member={members.find((member) => member.name === name)} />) : <span class="muted">There are no participants.</span>}</p>
    </div>
  );
}

function Participant({ name, member }) {
  if (!member) return <Agent name={name} />;
  const { name: shape, word } = standing(member);
  return <State name={shape} title={word} word={<Agent name={name} />} />;
}

const quiet = 10 * 60_000; // milliseconds of silence that are shown as a line

// Gap renders what separates two posts: another day, or a silence.
function Gap({ post, before }) {
  const at = Date.parse(post.created_at), prior = before && Date.parse(before.created_at);
  if (!before || day(at) !== day(prior)) return <li><span class="gap">{day(at)}</span></li>;
  return at - prior >= quiet ? <li><span class="gap">{span(at - prior)} of silence</span></li> : null;
}

// Fate renders what happened to the message to a mentioned agent.
function Fate({ name, row }) {
  if (!row) return <span class="at-name">@{name}</span>;
  const [state, says] = row.read_at ? ["delivered", <>read it <When at={row.read_at} seconds={false} /></>]
    : row.status === "delivered" ? ["idle", "not read yet"]
    : row.status === "pending" ? ["pending", row.held ? "no agent has that name" : "not delivered yet"]
    : [row.status, row.error_message ? oneLine(row.error_message) : row.status];
  return <span class="fate-of"><span class="at-name">@{name}</span> <a href={to(["messages", row.message_id])}><State name={state} word={state === "failed" || state === "expired" ? says : <span class="muted">{says}</span>} /></a></span>;
}

const oneLine = (text) => text.replace(/\s+/g, " ").slice(0, 120);

function Post({ post, before, fates }) {
  return (
    <>
      <Gap post={post} before={before} />
      <li>
        <span class="face" aria-hidden="true">{initials(post.sender)}</span>
        <div>
          <p class="meta"><Agent name={post.sender} /><When at={post.created_at} /><span class="type mono">{post.message_type}</span><MessageLink id={post.message_id} /></p>
          {post.summary && <p class="body"><b>{post.summary}</b></p>}
          {post.text && <p class="body text">{post.text}</p>}
          {post.data !== undefined && <Written value={post.data} />}
          {post.mentions?.length > 0 && <p class="fate">{post.mentions.map((name) => <Fate key={name} name={name} row={fates.get(copyOf(post, name))} />)}</p>}
        </div>
      </li>
    </>
  );
}

// initials returns the initials of an agent's name. Example: release-bot is rb.
const initials = (name) => name.split(/[-_]/).map((part) => part[0] ?? "").join("").slice(0, 2);
