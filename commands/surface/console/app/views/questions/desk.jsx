// Pairing this browser, waiting for its approval, and unpairing it.

import { useEffect, useState } from "preact/hooks";
import { spoken } from "../../../../look/answer.js";
import { refusedAnswers } from "../../desk/outbox.js";
import { forget, guess, obstacle, pair, unpair } from "../../desk/pairing.js";
import { wasRead } from "../../desk/reading.js";
import { Command, Confirm, Hint, Problem } from "../../parts.jsx";

// Offer is the button that pairs this desk; or the reason why it cannot be. quiet is for where another one stands that catches the eye.
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
          <p>This browser becomes a device, as a phone is: what is asked from then on is encrypted for it, too, and whoever is logged in to the console in it can read and answer. A command on the machine of the daemon approves it.</p>
          <p><label>Its name <input class="field-text" maxlength="60" value={name} onInput={(e) => setName(e.target.value)} /></label></p>
        </Confirm>
      )}
    </>
  );
}

// Attention is what has to be done before this desk reads anything.
export function Attention({ desk, reload }) {
  if (desk.state === "waiting") return <Waiting device={desk.device} reload={reload} />;
  if (desk.state !== "revoked") return null;
  return (
    <section class="ask pairing">
      <h2>This desk was revoked</h2>
      <p>It reads and answers nothing any more. To use it again, remove its keys and pair it anew.</p>
      {refusedAnswers().map(([id, { says }]) => <NotTaken key={id} says={says} question={wasRead(id).what} />)}
      <Act look="btn first" act={forget} onDone={reload}>Remove its keys</Act>
    </section>
  );
}

// NotTaken has the words of an answer that this desk cannot give any more, whatever became of the question.
const NotTaken = ({ says, question }) => <p class="problem" role="alert">Your answer to {question.from} was not taken, since this desk was revoked: {spoken(says, question.options)}</p>;

const Waiting = ({ device, reload }) => (
  <section class="ask pairing">
    <h2>Approve this desk</h2>
    <p>Its fingerprint:</p>
    <p class="fingerprint">{device.fingerprint}</p>
    <p>Run this in a terminal of the daemon’s machine; the page goes on by itself then.</p>
    <Command text={`mailroom signal device approve ${device.fingerprint}`} />
    <Act look="btn quiet" act={unpair} onDone={reload}>Cancel</Act>
  </section>
);

// Act is a button that does something at once, and says below why if that fails.
function Act({ look, act, onDone, children }) {
  const [failure, setFailure] = useState(null);
  return <><div class="acts"><button class={look} type="button" onClick={() => act().then(onDone, setFailure)}>{children}</button></div><Problem failure={failure} /></>;
}

// ThisDesk says among the devices how this browser stands.
export function ThisDesk({ desk, reload }) {
  const [asks, setAsks] = useState(false);
  if (desk.state === "none") return <div class="acts this-desk"><p class="muted">This browser is not paired.</p><Offer reload={reload} quiet /></div>;
  if (desk.state !== "active") return null;
  return (
    <div class="acts this-desk">
      <button class="btn" type="button" onClick={() => setAsks(true)}>Unpair this desk…</button>
      {asks && (
        <Confirm title="Unpair this desk?" word="Unpair" danger act={unpair} onDone={(done) => (setAsks(false), done && reload())}>
          <p>Its keys are removed and it is revoked, so that it reads nothing more. Open questions that no other device can read are cancelled.</p>
        </Confirm>
      )}
    </div>
  );
}
