// The small things that all views are made of.

import { useEffect, useRef, useState } from "preact/hooks";
import { logIn, whoAmI } from "./api.js";
import { follow } from "./live.js";
import { anywhere, me } from "./me.js";
import { age, clock, utc } from "./time.js";
import { shortId } from "./words.js";
import { to } from "./route.js";

// Icon is a picture of index.html's sprite: "to" is #i-to.
export const Icon = ({ name }) => <svg class="i" aria-hidden="true"><use href={`#i-${name}`} /></svg>;

// Shape is the shape of a state: "failed" is #s-failed.
export const Shape = ({ name }) => <svg class="st" aria-hidden="true"><use href={`#s-${name}`} /></svg>;

// State is a state as everywhere: shape, word and colour. word is what stands there if that is not the state's name.
export const State = ({ name, shape = name, word = name, title }) => (
  <span class={`state ${name}`} title={title}><Shape name={shape} />{word}</span>
);

// When is a time: its clock, and the exact one on hover.
export function When({ at, seconds = true }) {
  utc.value; // shown anew when that changes
  return at ? <time dateTime={at} title={at}>{clock(at, { seconds })}</time> : null;
}

// Age is how long ago something was, and the exact time on hover.
export const Age = ({ at }) => (at ? <time dateTime={at} title={at}>{age(at)}</time> : null);

// Agent is a name that leads to its page.
export const Agent = ({ name }) => <a class="agent" href={to(["agents", name])}>{name}</a>;

// Pair is who wrote to whom.
export const Pair = ({ from, to: recipient }) => (
  <span class="pair"><span class="agent">{from}</span><Icon name="to" /><span class="agent">{recipient}</span></span>
);

// MessageLink leads to a message.
export const MessageLink = ({ id }) => <a class="mono" href={to(["messages", id])} title={id}>{shortId(id)}</a>;

// Problem is an error with what to do about it, where it belongs. retry asks again, which is no use to who has no right. With stale, what comes
// after it is old, and grey.
export function Problem({ failure, retry, stale }) {
  if (!failure) return null;
  if (failure.code === "permission_denied" && me.value?.admin === false) {
    return (
      <div class="problem note" role="alert">
        <p>{failure.message}</p>
        <p>You are logged in as {me.value.agent}, which is not an administrator. To open this page as an administrator, run <code>mailroom console</code>.</p>
      </div>
    );
  }
  return (
    <div class={stale ? "problem stale" : "problem"} role="alert">
      <p>{failure.message}</p>
      {failure.hint && <p><Hint text={failure.hint} /></p>}
      {retry && <p><button class="btn" type="button" onClick={retry}>Try again</button></p>}
    </div>
  );
}

// Again lets somebody in again whose session is over, on the page as it is. It is no form, so that it can stand in one.
export function Again({ onDone = () => {} }) {
  const [typed, setTyped] = useState(""), [failure, setFailure] = useState(null);
  const enter = async () => {
    try {
      await logIn(typed);
      me.value = await whoAmI();
    } catch (error) {
      setFailure(error);
      return;
    }
    onDone();
    follow();
  };
  const key = (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    enter();
  };
  return (
    <>
      <p>Log in again with the address that <code>mailroom console --print</code> prints, or with a token:</p>
      <div class="acts">
        <input class="field-text" type="password" autocomplete="off" aria-label="Address or token" value={typed} onInput={(e) => setTyped(e.target.value)} onKeyDown={key} />
        <button class="btn" type="button" disabled={!typed.trim()} onClick={enter}>Log in</button>
      </div>
      {failure && <p class="bad" role="alert">{failure.message}</p>}
    </>
  );
}

// Hint is a sentence with commands in backquotes, which are shown as code.
export const Hint = ({ text }) => text.split("`").map((part, i) => (i % 2 ? <code title={anywhere(part)}>{part}</code> : part));

// Empty says that there is nothing, and the command that would change that.
export const Empty = ({ children, command }) => (
  <div class="empty"><p>{children}</p>{command && <Command text={command} />}</div>
);

// useCopy returns [after, copy]: copy puts a text into the clipboard. after.copied says for a moment that it is there, after.refused when the
// browser refused that, as it does where the address of the page is neither this machine nor https.
export function useCopy(text) {
  const [after, setAfter] = useState({});
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      setAfter({ refused: Date.now() });
      return;
    }
    setAfter({ copied: true });
    setTimeout(() => setAfter({}), 2000);
  };
  return [after, copy];
}

// Command is a line for a terminal in any folder, with a button that copies it. What the browser refuses to copy is selected, to be copied by hand.
export function Command({ text: command }) {
  const text = anywhere(command), [{ copied, refused }, copy] = useCopy(text);
  return (
    <div class="cmd">
      <span class="p">$</span>{refused ? <ByHand text={text} refused={refused} /> : <code>{text}</code>}
      <button class="copy" type="button" aria-label={copied ? "Copied" : "Copy"} onClick={copy}><Icon name={copied ? "check" : "copy"} /></button>
    </div>
  );
}

// ByHand is a command that the browser refused to copy. It is selected, each time anew.
export function ByHand({ text, refused }) {
  const code = useRef();
  useEffect(() => getSelection().selectAllChildren(code.current), [refused]);
  return <span class="by-hand"><code ref={code}>{text}</code><span class="muted" role="status">The browser blocked copying. The command is selected. Copy it manually.</span></span>;
}

// Loaded shows what a command answers (see useCommand) once it is there: its error above, the old data in grey while it cannot be
// asked, and children(data). These stay in the same place of the tree, so that a dialog that is open in them, and what was typed there, stays.
export function Loaded({ of, children }) {
  if (of.data === null && of.failure === null) return <p class="muted" aria-busy="true">Loading…</p>;
  return (
    <>
      <Problem failure={of.failure} retry={of.reload} stale={of.data !== null} />
      {of.data !== null && children(of.data)}
    </>
  );
}

// Confirm asks before something is done: what it does, the word on the button, and what happens then. onDone is called with true once it
// is done, with false if not. An error of `act` is shown in the dialog.
export function Confirm({ title, children, word, danger = false, act, onDone }) {
  const dialog = useRef(), [failure, setFailure] = useState(null), [busy, setBusy] = useState(false);
  useEffect(() => dialog.current.showModal(), []);
  const go = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await act();
      onDone(true);
    } catch (error) {
      setFailure(error);
      setBusy(false);
    }
  };
  return (
    <dialog class="ask" ref={dialog} aria-labelledby="ask-title" onClose={() => onDone(false)}>
      <form onSubmit={go}>
        <h2 id="ask-title">{title}</h2>
        {children}
        <Problem failure={failure} />
        {failure?.status === 401 && <Again onDone={() => setFailure(null)} />}
        <div class="acts">
          <button class="btn quiet" type="button" onClick={() => dialog.current.close()}>Go back</button>
          <button class={danger ? "btn danger" : "btn first"} disabled={busy}>{word}</button>
        </div>
      </form>
    </dialog>
  );
}
