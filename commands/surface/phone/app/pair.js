// From a code to an approved device.
import { Refused, call } from "./api.js";
import { make } from "../../look/dom.js";
import { icon } from "./dom.js";
import { enrol } from "./enrol.js";
import { installed, onApple } from "./push.js";
import { supported } from "./seal.js";

// takeCode returns the code in the address and removes it from there, so that it stays in no history.
export function takeCode() {
  const code = new URLSearchParams(location.hash.slice(1)).get("c");
  if (location.pathname === "/pair") history.replaceState(null, "", "/");
  return code ?? "";
}

// canonical writes a code as the daemon does, however it was typed.
export const canonical = (typed) => (typed.toUpperCase().match(/[A-Z0-9]/g) ?? []).join("").replace(/(.{4})(?=.)/g, "$1-");

function guess() {
  const [kind] = /iPhone|iPad|Android/.exec(navigator.userAgent) ?? ["Browser"];
  return kind === "Android" ? "Android phone" : kind;
}

// form makes the view in which a code is entered; done is called when the device is paired.
export function form(code, done) {
  const problem = make("p", { class: "notice bad", role: "alert", hidden: true });
  const codeInput = make("input", { id: "code", name: "code", value: canonical(code), required: true, maxlength: "20",
    autocomplete: "off", autocapitalize: "characters", spellcheck: "false", placeholder: "ABCD-EFGH-JKLM", class: "code" });
  const nameInput = make("input", { id: "name", name: "name", value: guess(), required: true, maxlength: "60", autocomplete: "off" });
  const button = make("button", { type: "submit", class: "btn first" }, "Pair this device");
  const submit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    problem.hidden = true;
    try {
      if (!(await supported())) throw new Error("this browser cannot make the key that is needed (X25519). A newer version can");
      const name = nameInput.value.trim() || guess();
      await enrol(name, (recipient) => call("POST", "/api/pair", { code: canonical(codeInput.value), name, recipient }));
      await done();
    } catch (error) {
      problem.textContent = error instanceof Refused ? error.message : `It could not be paired: ${error.message}.`;
      problem.hidden = false;
      button.disabled = false;
    }
  };
  return make("section", { class: "card" },
    make("h1", {}, "Pair this device"),
    make("p", {}, "Agents ask and alert you here. What they say is encrypted for this device."),
    onApple() && !installed() && install(code),
    make("form", { onsubmit: submit, novalidate: true },
      make("label", { for: "code" }, "Code"),
      make("p", { class: "muted hint", id: "code-hint" }, "Shown by ", make("code", {}, "mailroom signal pair"), " on your machine."),
      codeInput,
      make("label", { for: "name" }, "Name of this device"),
      nameInput,
      problem,
      button));
}

// install says how on an iPhone, where an installed app is rung, and shares nothing with the browser: so it is
// installed first and paired then.
const install = (code) =>
  make("div", { class: "notice" },
    make("p", {}, "To be rung on this device, install the app first: Share, then Add to Home Screen. Open it from there and pair it there."),
    code && make("p", {}, "Type this code there: ", make("strong", { class: "code" }, canonical(code))));

// waiting makes the view of a device that was not approved yet.
export const waiting = (device, cancel) =>
  make("section", { class: "card" },
    make("h1", {}, "Approve this device"),
    make("p", {}, "Its fingerprint:"),
    make("p", { class: "fingerprint" }, device.fingerprint),
    make("p", {}, "On your machine, compare it and run:"),
    make("pre", { tabindex: "0", "aria-label": "Command to run" }, make("code", {}, `mailroom signal device approve ${device.fingerprint}`)),
    make("p", { class: "muted" }, "This page goes on by itself as soon as that is done."),
    make("button", { type: "button", class: "btn", onclick: cancel }, "Cancel"));

// revoked makes the view of a device that the daemon no longer knows.
export const revoked = (again) =>
  make("section", { class: "card" },
    make("h1", {}, "Not paired any more"),
    make("p", {}, icon("info"), " This device was revoked or unpaired. To use it again, pair it with a new code; what it keeps is removed first."),
    make("button", { type: "button", class: "btn first", onclick: again }, "Remove and pair again"));
