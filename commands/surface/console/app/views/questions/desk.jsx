// Pairing this browser, waiting for its approval, and unpairing it.

import { useEffect, useState } from "preact/hooks";
import { spoken } from "../../../../look/answer.js";
import { refusedAnswers } from "../../desk/outbox.js";
import { forget, guess, obstacle, pair, unpair } from "../../desk/pairing.js";
import { wasRead } from "../../desk/reading.js";
import { Command, Confirm, Hint, Problem } from "../../parts.jsx";

// Offer renders the button that pairs this desk, or the reason why the browser cannot be paired. quiet draws a plain
// button, for a page that already has a prominent one.
export function Offer({ reload, quiet }) {
  const [why, setWhy] = useState(null), [asks, setAsks] = useState(false), [name, setName] = useState(guess());
  useEffect(() => {
    obstacle().then(setWhy, (error) => setWhy(error.message));
  }, []);
  if (why === null) return null;
  if (why) return <p class="muted why-not"><Hint text={why} /></p>;
  return (
    <>
      <button class={quiet ? "btn" : "btn first"} type="button" onClick={() => setAsks(true)}>Pair this desk</button>
      {asks && (
        <Confirm title="Pair this desk?" word="Pair it" act={() => pair(name.trim() || guess())} onDone={(done) => (setAsks(false), done && reload())}>
          <p>This browser becomes a device, like a phone. From then on, Mailroom also encrypts questions for this browser. Anyone who is logged in to the console in this browser can read and answer the questions. You approve the browser with a command on the daemon’s machine.</p>
          <p><label>Name <input class="field-text" maxlength="60" value={name} onInput={(e) => setName(e.target.value)} /></label></p>
        </Confirm>
      )}
    </>
  );
}

// Attention renders what a person must do before this desk can read questions.
export function Attention({ desk, reload }) {
  if (desk.state === "waiting") return <Waiting device={desk.device} reload={reload} />;
  if (desk.state !== "revoked") return null;
  return (
    <section class="ask pairing">
      <h2>This desk was revoked</h2>
      <p>The desk can no longer read or answer questions. To use it again, remove its keys, and pair it again.</p>
      {refusedAnswers().map(([id, { says }]) => <NotTaken key={id} says={says} question={wasRead(id).what} />)}
      <Act look="btn first" act={forget} onDone={reload}>Remove its keys</Act>
    </section>
  );
}

// NotTaken renders the text of an answer that this desk can no longer send.
const NotTaken = ({ says, question }) => <p class="problem" role="alert">Your answer to {question.from} (“{spoken(says, question.options)}”) was not accepted, because this desk was revoked.</p>;

const Waiting = ({ device, reload }) => (
  <section class="ask pairing">
    <h2>Approve this desk</h2>
    <p>The fingerprint of this desk:</p>
    <p class="fingerprint">{device.fingerprint}</p>
    <p>Run this command in a terminal on the daemon’s machine. The page then continues automatically.</p>
    <Command text={`mailroom signal device approve ${device.fingerprint}`} />
    <Act look="btn quiet" act={unpair} onDone={reload}>Cancel</Act>
  </section>
);

// Act renders a button that acts immediately, and the error below it if the action fails.
function Act({ look, act, onDone, children }) {
  const [failure, setFailure] = useState(null);
  return <><div class="acts"><button class={look} type="button" onClick={() => act().then(onDone, setFailure)}>{children}</button></div><Problem failure={failure} /></>;
}

// ThisDesk renders the controls of this browser in the list of devices.
export function ThisDesk({ desk, reload }) {
  const [asks, setAsks] = useState(false);
  if (desk.state === "none") return <div class="acts this-desk"><p class="muted">This browser is not paired.</p><Offer reload={reload} quiet /></div>;
  if (desk.state !== "active") return null;
  return (
    <div class="acts this-desk">
      <button class="btn" type="button" onClick={() => setAsks(true)}>Unpair this desk…</button>
      {asks && (
        <Confirm title="Unpair this desk?" word="Unpair" danger act={unpair} onDone={(done) => (setAsks(false), done && reload())}>
          <p>Mailroom removes the keys of this desk and revokes it, so the desk can no longer read questions. Mailroom cancels open questions that no other device can read.</p>
        </Confirm>
      )}
    </div>
  );
}
