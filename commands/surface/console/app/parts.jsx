// Small components that all views use.

import { useEffect, useRef, useState } from "preact/hooks";
import { logIn, whoAmI } from "./api.js";
import { follow } from "./live.js";
import { anywhere, me } from "./me.js";
import { age, clock, utc } from "./time.js";
import { shortId } from "./words.js";
import { to } from "./route.js";

// Icon renders a picture from the sprite in index.html: the name "to" is #i-to.
export const Icon = ({ name }) => <svg class="i" aria-hidden="true"><use href={`#i-${name}`} /></svg>;

// Shape renders the shape of a state: the name "failed" is #s-failed.
export const Shape = ({ name }) => <svg class="st" aria-hidden="true"><use href={`#s-${name}`} /></svg>;

// State renders a state in the same way on all pages: a shape, a word, and a color. word replaces the name of the
// state.
export const State = ({ name, shape = name, word = name, title }) => (
  <span class={`state ${name}`} title={title}><Shape name={shape} />{word}</span>
);

// When renders a time, with the exact time on hover.
export function When({ at, seconds = true }) {
  utc.value; // renders the time again when utc changes
  return at ? <time dateTime={at} title={at}>{clock(at, { seconds })}</time> : null;
}

// Age renders how long ago a time is, with the exact time on hover.
export const Age = ({ at }) => (at ? <time dateTime={at} title={at}>{age(at)}</time> : null);

// Agent renders the name of an agent as a link to its page.
export const Agent = ({ name }) => <a class="agent" href={to(["agents", name])}>{name}</a>;

// Pair renders the sender and the recipient of a message.
export const Pair = ({ from, to: recipient }) => (
  <span class="pair"><span class="agent">{from}</span><Icon name="to" /><span class="agent">{recipient}</span></span>
);

// MessageLink renders a link to a message.
export const MessageLink = ({ id }) => <a class="mono" href={to(["messages", id])} title={id}>{shortId(id)}</a>;

// Problem renders an error at the place where it occurred, with the hint about what to do. retry sends the request
// again; it is not offered if the person has no permission. stale marks the data below the error as old: it is drawn
// in gray.
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

// Again lets a person log in again on the same page after the session has ended. It is not a form element, so that it
// can be inside one.
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

// Hint renders a sentence. It shows the commands in backquotes as code.
export const Hint = ({ text }) => text.split("`").map((part, i) => (i % 2 ? <code title={anywhere(part)}>{part}</code> : part));

// Empty renders a note that there is nothing to show, with the command that changes this.
export const Empty = ({ children, command }) => (
  <div class="empty"><p>{children}</p>{command && <Command text={command} />}</div>
);

// useCopy returns [after, copy]. copy copies the text to the clipboard. after.copied is set for two seconds after
// that. after.refused is set if the browser refuses, as it does if the page's address is neither this machine nor
// https.
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

// Command renders a command for a terminal in any folder, with a button that copies it. If the browser refuses to
// copy the command, Command selects the text, so that the person can copy it by hand.
export function Command({ text: command }) {
  const text = anywhere(command), [{ copied, refused }, copy] = useCopy(text);
  return (
    <div class="cmd">
      <span class="p">$</span>{refused ? <ByHand text={text} refused={refused} /> : <code>{text}</code>}
      <button class="copy" type="button" aria-label={copied ? "Copied" : "Copy"} onClick={copy}><Icon name={copied ? "check" : "copy"} /></button>
    </div>
  );
}

// ByHand renders a command that the browser refused to copy. It selects the text after each refusal.
export function ByHand({ text, refused }) {
  const code = useRef();
  useEffect(() => getSelection().selectAllChildren(code.current), [refused]);
  return <span class="by-hand"><code ref={code}>{text}</code><span class="muted" role="status">The browser blocked copying. The command is selected. Copy it manually.</span></span>;
}

// Loaded renders the result of useCommand once it has arrived: the error, if there is one, above children(data).
// While a request fails, the old data stays, in gray. The children keep their place in the tree, so that an open
// dialog and the text typed in it stay.
export function Loaded({ of, children }) {
  if (of.data === null && of.failure === null) return <p class="muted" aria-busy="true">Loading…</p>;
  return (
    <>
      <Problem failure={of.failure} retry={of.reload} stale={of.data !== null} />
      {of.data !== null && children(of.data)}
    </>
  );
}

// Confirm renders a dialog that asks before an action: its title and effect, the word on the button, and the function
// `act` that performs the action. Confirm calls onDone with true after the action, or with false if the person closes
// the dialog. It shows an error of `act` in the dialog.
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
