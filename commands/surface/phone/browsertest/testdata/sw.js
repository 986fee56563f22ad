"use strict";
self.addEventListener("install", event => event.waitUntil(self.skipWaiting()));
self.addEventListener("activate", event => event.waitUntil(self.clients.claim()));
self.addEventListener("push", event => event.waitUntil(self.registration.showNotification(event.data.text(), {
  body: "body", tag: "fixture", actions: [{ action: "0", title: "Yes" }, { action: "1", title: "No" }],
})));
self.addEventListener("notificationclick", event => event.waitUntil(fetch("pressed", { method: "POST", body: event.action })));
