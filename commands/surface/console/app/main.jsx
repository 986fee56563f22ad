// The page: the login, the rail, the top bar, and the view for the current address.

import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { dropToken, logIn, signIn, signOut, token, whoAmI } from "./api.js";
import { Boundary } from "./boundary.jsx";
import { releaseAll } from "./desk/outbox.js";
import { connection, follow } from "./live.js";
import { go, places, route } from "./route.js";
import { me } from "./me.js";
import { keysOpen, listed, useKeys } from "./keys.js";
import { clock, toggleUTC } from "./time.js";
import { Again, Icon, Problem } from "./parts.jsx";
import { tallies } from "./tallies.js";
import { Standing } from "./needs.js";
import { Find } from "./views/palette.jsx";
import { Now } from "./views/now.jsx";
import { Messages } from "./views/messages.jsx";
import { Message } from "./views/message.jsx";
import { Threads } from "./views/threads.jsx";
import { Agents } from "./views/agents.jsx";
import { Questions } from "./views/questions.jsx";
import { Operations } from "./views/operations.jsx";
import { Audit } from "./views/audit.jsx";

// views maps the first part of an address to its view. The view gets the other parts of the address.
const views = {
  "": Now, messages: ({ rest }) => (rest.length ? <Message key={rest[0]} id={rest[0]} /> : <Messages />), threads: Threads, agents: Agents, questions: Questions,
  operations: Operations, audit: Audit,
};

function Rail({ current }) {
  return (
    <aside class="rail" aria-label="Mailroom">
      <a class="brand" href="/" aria-label="Mailroom"><Mark /><span>Mailroom</span></a>
      <nav aria-label="Views">
        {places.map(({ path, word, address }) => (
          <>
            {path === "operations" && <span class="sep" />}
            <a href={address} aria-current={path === current ? "page" : undefined}>
              <Icon name={path || "now"} />{word}<Tally of={tallies.value[path]} />
            </a>
          </>
        ))}
      </nav>
      <footer>
        <p title={me.value.database}>{me.value.project}</p>
        <p>{me.value.agent}{me.value.admin ? "" : ", not an administrator"}</p>
        <p class="keep"><kbd>?</kbd> <button class="link" type="button" onClick={() => (keysOpen.value = true)}>keys</button></p>
        <p class="keep"><button class="link" type="button" onClick={leave}>Log out</button></p>
      </footer>
    </aside>
  );
}

const Tally = ({ of }) => (of?.n ? <span class={of.hot ? "tally hot" : "tally"} title={of.title}>{of.n}</span> : null);

const Mark = () => (
  <svg viewBox="0 0 28 28" aria-hidden="true">
    <rect width="28" height="28" rx="7" fill="#17594f" /><rect x="5.5" y="8" width="17" height="12" rx="1.5" fill="#fff" />
    <path d="m6.5 9.5 7.5 6 7.5-6" fill="none" stroke="#17594f" stroke-width="1.7" stroke-linejoin="round" />
  </svg>
);

const states = { live: "Live", paused: "Paused", offline: "Offline since", ended: "Logged out" };

function Live() {
  const { state, since } = connection.value;
  return (
    <span class={`live ${state}`} role="status" title={state === "live" ? "Connected. The page updates at most 4 times a second." : undefined}>
      <i />{states[state]}{state === "offline" && <time class="muted">{clock(new Date(since).toISOString())}</time>}
    </span>
  );
}

function Top({ word, address, rest }) {
  return (
    <header class="top">
      <a class="brand narrow" href="/" aria-label="Mailroom"><Mark /></a>
      <div class="crumbs">{rest.length ? <><a href={address}>{word}</a><Icon name="right" /><b>{rest.join(" / ")}</b></> : <b>{word}</b>}</div>
      <Find />
      <Live />
    </header>
  );
}

const goKeys = places.map(({ key, word }) => [`g ${key}`, word]);

function Keys() {
  const dialog = useRef();
  useEffect(() => {
    if (keysOpen.value && !dialog.current.open) dialog.current.showModal();
  });
  const part = (title, list) => (
    <section><h3>{title}</h3><dl>{list.map(([keys, what]) => <><dt>{keys.split(" ").map((k) => <><kbd>{k}</kbd> </>)}</dt><dd>{what}</dd></>)}</dl></section>
  );
  if (!keysOpen.value) return null;
  return (
    <dialog id="keys" ref={dialog} aria-labelledby="keys-h" onClose={() => (keysOpen.value = false)}>
      <form method="dialog"><div class="bar"><h2 id="keys-h">Keys</h2><button class="btn quiet">Close <kbd>Esc</kbd></button></div></form>
      <div class="keys">
        {part("Go to", goKeys)}
        {part("All views", [["/", "find or filter"], ["t", "switch between local time and UTC"], ["?", "list the keys"]])}
        {listed.value.length > 0 && part("This view", listed.value)}
      </div>
    </dialog>
  );
}

function App() {
  const [first = "", ...rest] = route.value.path;
  const place = places.find(({ path }) => path === first);
  useKeys({ t: toggleUTC });
  useEffect(() => {
    document.title = place ? `${rest[0] ?? place.word} · Mailroom` : "Mailroom";
  });
  useEffect(() => document.querySelectorAll(":is(.tabs, .facets) [aria-current]").forEach(center), [route.value.path.join("/")]);
  const View = place && views[first];
  return (
    <>
      <a class="skip" href="#main">Skip to content</a>
      <Rail current={first} />
      <div class="sheet">
        <Top word={place?.word ?? "Not found"} address={place?.address} rest={place ? rest : []} />
        <main id="main" class="page" tabIndex={-1}>
          {connection.value.state === "ended" && <Ended />}
          {View ? <Boundary><View rest={rest} /></Boundary> : <section class="lede"><h1>This page does not exist</h1><p>Go to <a href="/">Now</a>.</p></section>}
        </main>
      </div>
      <nav class="tabs" aria-label="Views">
        {places.map(({ path, word, address }) => <a href={address} aria-current={path === first ? "page" : undefined}><Icon name={path || "now"} />{word}{tallies.value[path]?.hot && <Tally of={tallies.value[path]} />}</a>)}
      </nav>
      <Keys />
      <Standing />
    </>
  );
}

// center scrolls a row of tabs sideways, if it is too long, so that a tab is visible.
function center(tab) {
  const row = tab.parentElement;
  row.scrollLeft = tab.offsetLeft - row.offsetLeft - (row.clientWidth - tab.offsetWidth) / 2;
}

const Ended = () => (
  <div class="problem" role="alert">
    <p>This session is over, because it was revoked or is older than twelve hours. The page keeps the text that you typed.</p>
    <Again />
  </div>
);

// leave sends the held answers and logs out. If the daemon refuses an answer, the page stays and shows the answer.
async function leave() {
  if ((await releaseAll()).some((refusal) => refusal && refusal.status !== 401)) {
    go("/questions");
    return;
  }
  await signOut();
  location.reload();
}

// Gate is the login page.
function Gate({ failure, onToken }) {
  const [typed, setTyped] = useState("");
  const [refused, setRefused] = useState(null);
  const enter = async (event) => {
    event.preventDefault();
    if (!typed.trim()) {
      setRefused({ message: "The field is empty.", hint: "Paste the address that `mailroom console --print` prints, or an administrator’s token." });
      return;
    }
    try {
      await logIn(typed);
    } catch (error) {
      setRefused(error);
      return;
    }
    setRefused(null);
    onToken();
  };
  return (
    <main class="gate" id="main">
      <h1>Mailroom</h1>
      <p>Run <code>mailroom console</code> in your project’s folder. The command opens this page and logs you in.</p>
      <Problem failure={refused ?? failure} />
      <p class="muted">Or paste the address that <code>mailroom console --print</code> prints, or an administrator’s token. To issue a token, run <code>mailroom agent token NAME --admin</code>.</p>
      <form onSubmit={enter}>
        <input class="field-text" type="password" autocomplete="off" aria-label="Token" value={typed} onInput={(e) => setTyped(e.target.value)} />
        <button class="btn">Log in</button>
      </form>
    </main>
  );
}

// start logs in, with the code in the address if there is one, and renders the page.
async function start() {
  const code = location.hash.startsWith("#code=") ? location.hash.slice(6) : "";
  // Keep the code out of the browser's history.
  if (code) history.replaceState(null, "", location.pathname + location.search);
  let failure = null;
  try {
    if (code) await signIn(code);
    if (token()) me.value = await whoAmI();
  } catch (error) {
    failure = error;
    if (error.status === 401 && !code) {
      dropToken();
      failure = { message: error.message, hint: "To log in without a token, run `mailroom console`. To issue a token, run `mailroom agent token NAME --admin`." };
    }
  }
  const root = document.getElementById("app");
  if (!me.value) {
    render(<Gate failure={failure} onToken={start} />, root);
    return;
  }
  render(<App />, root);
  follow();
}

start();
