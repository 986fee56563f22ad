"use strict";
const state = document.getElementById("state");
document.getElementById("subscribe").onclick = async event => {
  try {
    await navigator.serviceWorker.register("sw.js");
    const worker = await navigator.serviceWorker.ready;
    const key = await (await fetch("key")).text();
    const subscription = await worker.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
    await fetch("subscription?name=" + encodeURIComponent(document.getElementById("name").value), { method: "POST", body: JSON.stringify(subscription) });
    state.textContent = "subscribed" + (event.isTrusted ? "" : " by a script");
  } catch (e) {
    state.textContent = String(e);
  }
};
