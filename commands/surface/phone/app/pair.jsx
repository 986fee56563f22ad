// Pairing: from the code to the approved device.
import { useState } from "preact/hooks";
import { Refused, call } from "./api.js";
import { enrol } from "./enrol.js";
import { Icon } from "./icon.jsx";
import { installed, onApple } from "./push.js";
import { supported } from "./seal.js";

// takeCode returns the code in the address, and removes it from the address to keep it out of the history.
export function takeCode() {
  const code = new URLSearchParams(location.hash.slice(1)).get("c");
  if (location.pathname === "/pair") history.replaceState(null, "", "/");
  return code ?? "";
}

// canonical formats a code as the daemon does, regardless of how the person typed it.
export const canonical = (typed) => (typed.toUpperCase().match(/[A-Z0-9]/g) ?? []).join("").replace(/(.{4})(?=.)/g, "$1-");

function guess() {
  const [kind] = /iPhone|iPad|Android/.exec(navigator.userAgent) ?? ["Browser"];
  return kind === "Android" ? "Android phone" : kind;
}

// Pair renders the form for a code. It calls onDone after the device is paired.
export function Pair({ code, onDone }) {
  const [problem, setProblem] = useState(""), [busy, setBusy] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    const typed = event.currentTarget.elements, name = typed.name.value.trim() || guess();
    setBusy(true);
    setProblem("");
    try {
      if (!(await supported())) throw new Error("this browser cannot create an X25519 key, which pairing requires. Use a newer version of the browser");
      await enrol(name, (recipient) => call("POST", "/api/pair", { code: canonical(typed.code.value), name, recipient }));
      await onDone();
    } catch (error) {
      setProblem(error instanceof Refused ? error.message : `Pairing failed: ${error.message}.`);
      setBusy(false);
    }
  };
  return (
    <section class="card">
      <h1>Pair this device</h1>
      <p>Agents ask you questions and send you alerts here. Mailroom encrypts them for this device.</p>
      {onApple() && !installed() && <Install code={code} />}
      <form onSubmit={submit} novalidate>
        <label for="code">Code</label>
        <p class="muted hint" id="code-hint">To get a code, run <code>mailroom signal pair</code> on your machine.</p>
        <input id="code" name="code" defaultValue={canonical(code)} required maxlength="20" autocomplete="off" autocapitalize="characters"
          spellcheck={false} placeholder="ABCD-EFGH-JKLM" class="code" />
        <label for="name">Name of this device</label>
        <input id="name" name="name" defaultValue={guess()} required maxlength="60" autocomplete="off" />
        <p class="notice bad" role="alert" hidden={!problem}>{problem}</p>
        <button type="submit" class="btn first" disabled={busy}>Pair this device</button>
      </form>
    </section>
  );
}

// Install explains how to install the app on an iPhone. Only an installed app gets notifications there, and it shares
// no data with the browser, so a person must install the app first and then pair it.
const Install = ({ code }) => (
  <div class="notice">
    <p>To get notifications on this device, install the app first: tap Share, then Add to Home Screen. Open the app from the home screen, and pair it there.</p>
    {code && <p>Type this code into the app: <strong class="code">{canonical(code)}</strong></p>}
  </div>
);

// Waiting renders the view of a device that is not approved yet.
export const Waiting = ({ device, cancel }) => (
  <section class="card">
    <h1>Approve this device</h1>
    <p>The fingerprint of this device:</p>
    <p class="fingerprint">{device.fingerprint}</p>
    <p>On your machine, compare the fingerprint and run this command:</p>
    <pre tabindex="0" aria-label="Command to run"><code>mailroom signal device approve {device.fingerprint}</code></pre>
    <p class="muted">After that, this page continues automatically.</p>
    <button type="button" class="btn" onClick={cancel}>Cancel</button>
  </section>
);

// Revoked renders the view of a device that the daemon has revoked.
export const Revoked = ({ again }) => (
  <section class="card">
    <h1>No longer paired</h1>
    <p><Icon name="info" /> This device was revoked or unpaired. To use it again, pair it with a new code. The app first removes all its data from this device.</p>
    <button type="button" class="btn first" onClick={again}>Remove and pair again</button>
  </section>
);
