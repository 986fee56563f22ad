// The device: its name, whether it rings, installing, unpairing; and the cards that offer the first steps.
import { make } from "../../look/dom.js";
import { obstacle } from "./push.js";

const reason = "With notifications a question rings here even when this page is closed. The push service sees only encrypted data; this device decrypts it.";

// ringing says what the state of being rung is: {words, button, press} for the cards; act has ring, quiet and again.
function ringing(device, act) {
  switch (obstacle()) {
    case "install":
      return { words: "This device rings only for installed apps. Share, then Add to Home Screen; open the app from there and pair it there." };
    case "unsupported":
      return { words: "This browser has no push messages. Questions appear while this page is open." };
    case "denied":
      return { words: "Notifications are blocked for this site. Allow them in the browser's settings for this site; until then questions appear only while this page is open." };
  }
  if (Notification.permission !== "granted" || device.push === "none") return { words: reason, button: "Turn on notifications", press: act.ring };
  if (device.push?.startsWith("problem")) return { words: `The last push failed (${device.push}).`, button: "Subscribe anew", press: act.again };
  return { words: "This device rings when a question or an alert comes.", button: "Turn off notifications", press: act.quiet, on: true };
}

const card = (title, { words, button, press }, later) =>
  make("section", { class: "card step" },
    make("h2", {}, title),
    make("p", {}, words),
    make("div", { class: "acts" },
      button && make("button", { type: "button", class: "btn first", onclick: press }, button),
      later && make("button", { type: "button", class: "btn", onclick: later }, "Not now")));

const install = (act) => ({ words: "As an app it starts from your home screen.", button: "Install", press: act.install });

// steps are the cards above the questions until they are done or put off: entries for the list of a view.
export function steps(device, { putOff, prompt }, act) {
  const ring = ringing(device, act);
  const list = [];
  if (!ring.on && !putOff.includes("ring")) {
    list.push({ key: "ring", signature: ring.words, build: () => card("Notifications", ring, () => act.putOff("ring")) });
  }
  if (prompt && !putOff.includes("install")) {
    list.push({ key: "install", signature: "", build: () => card("Install Mailroom", install(act), () => act.putOff("install")) });
  }
  return list;
}

// view makes the entries of the settings.
export function view(device, { prompt }, act) {
  const ring = ringing(device, act);
  return [
    { key: "title", signature: "Settings", build: () => make("h1", {}, "Settings") },
    { key: "device", signature: device.id, build: () => about(device) },
    { key: "ringing", signature: ring.words, build: () => card("Notifications", ring) },
    prompt && { key: "install", signature: "settings", build: () => card("Install", install(act)) },
    { key: "unpair", signature: "", build: () => unpair(act) },
  ];
}

const about = (device) =>
  make("section", { class: "card" },
    make("h2", {}, "This device"),
    make("dl", {},
      make("dt", {}, "Name"), make("dd", {}, device.name),
      make("dt", {}, "Fingerprint"), make("dd", { class: "mono" }, device.fingerprint),
      make("dt", {}, "Id"), make("dd", { class: "mono" }, device.id)));

function unpair(act) {
  const dialog = make("dialog", { "aria-labelledby": "unpair-title" },
    make("h2", { id: "unpair-title" }, "Unpair this device?"),
    make("p", {}, "Its key and everything that it keeps are removed. Questions that are open stay open on your other devices."),
    make("div", { class: "acts" },
      make("button", { type: "button", class: "btn danger", onclick: () => (dialog.close(), act.unpair()) }, "Unpair"),
      make("button", { type: "button", class: "btn", onclick: () => dialog.close() }, "Keep it")));
  return make("section", { class: "card" },
    make("h2", {}, "Unpair"),
    make("p", {}, "Removes this device from Mailroom, and everything from this device."),
    make("button", { type: "button", class: "btn danger", onclick: () => dialog.showModal() }, "Unpair this device"),
    dialog);
}
