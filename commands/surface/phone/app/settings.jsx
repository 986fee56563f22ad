// The settings of the device: its name, notifications, installation, and unpairing; and the cards for the first
// steps.
import { useRef } from "preact/hooks";
import { obstacle } from "./push.js";

const reason = "With notifications, questions reach you even when this page is closed. The push service sees only encrypted data. This device decrypts it.";

// ringing describes the state of notifications for the cards: {words, button, press, on}. act has ring, quiet, and
// again.
function ringing(device, act) {
  switch (obstacle()) {
    case "install":
      return { words: "This device shows notifications only for installed apps. Tap Share, then Add to Home Screen. Open the app from the home screen, and pair it there." };
    case "unsupported":
      return { words: "This browser does not support push notifications. Questions appear only while this page is open." };
    case "denied":
      return { words: "Notifications are blocked for this site. Allow them in the browser's settings for this site. Until then, questions appear only while this page is open." };
  }
  if (Notification.permission !== "granted" || device.push === "none") return { words: reason, button: "Turn on notifications", press: act.ring };
  if (device.push?.startsWith("problem")) return { words: `The last push failed (${device.push.replace(/^problem: /, "")}).`, button: "Subscribe again", press: act.again };
  return { words: "This device shows a notification for each question and alert.", button: "Turn off notifications", press: act.quiet, on: true };
}

const Card = ({ title, words, button, press, later }) => (
  <section class="card step">
    <h2>{title}</h2>
    <p>{words}</p>
    <div class="acts">
      {button && <button type="button" class="btn first" onClick={press}>{button}</button>}
      {later && <button type="button" class="btn" onClick={later}>Not now</button>}
    </div>
  </section>
);

const install = (act) => ({ words: "If you install the app, you can start it from your home screen.", button: "Install", press: act.install });

// Steps renders the cards for the first steps, above the questions. Each stays until it is done or put off.
export function Steps({ state: { device, putOff, prompt }, act }) {
  const { on, ...ring } = ringing(device, act), later = (step) => () => act.putOff(step);
  return (
    <>
      {!on && !putOff.includes("ring") && <Card key="ring" title="Notifications" {...ring} later={later("ring")} />}
      {prompt && !putOff.includes("install") && (
        <Card key="install" title="Install Mailroom" {...install(act)} later={later("install")} />
      )}
    </>
  );
}

// Settings renders the cards of the settings view.
export const Settings = ({ state: { device, prompt }, act }) => (
  <>
    <section class="card">
      <h2>This device</h2>
      <dl>
        <dt>Name</dt><dd>{device.name}</dd>
        <dt>Fingerprint</dt><dd class="mono">{device.fingerprint}</dd>
        <dt>ID</dt><dd class="mono">{device.id}</dd>
      </dl>
    </section>
    <Card title="Notifications" {...ringing(device, act)} />
    {prompt && <Card title="Install" {...install(act)} />}
    <Unpair act={act} />
  </>
);

function Unpair({ act }) {
  const dialog = useRef();
  return (
    <section class="card">
      <h2>Unpair</h2>
      <p>Removes this device from Mailroom, and removes all data of the app from this device.</p>
      <button type="button" class="btn danger" onClick={() => dialog.current.showModal()}>Unpair this device</button>
      <dialog ref={dialog} aria-labelledby="unpair-title">
        <h2 id="unpair-title">Unpair this device?</h2>
        <p>The app removes its key and all its data from this device. Open questions stay open on your other devices. Mailroom cancels questions that no other device can read.</p>
        <div class="acts">
          <button type="button" class="btn danger" onClick={() => (dialog.current.close(), act.unpair())}>Unpair</button>
          <button type="button" class="btn" onClick={() => dialog.current.close()}>Keep it</button>
        </div>
      </dialog>
    </section>
  );
}
