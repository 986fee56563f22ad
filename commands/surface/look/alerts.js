// What agents tell the user: of what kind it is, and what belongs together.

const words = { error: "Error", warning: "Warning", success: "Success", info: "Information" };

// alertType and alertWord say of what kind an alert is, in the page's words and in a person's.
export const alertType = (alert) => (Object.hasOwn(words, alert.alertType) ? alert.alertType : "info");
export const alertWord = (alert) => words[alertType(alert)];

// groups puts alerts together that one agent has sent of one kind; whatOf returns what one says, if it can be read. Their order stays: a
// group stands where its first one does.
export function groups(alerts, whatOf) {
  const found = new Map();
  for (const alert of alerts) {
    const what = whatOf(alert);
    const key = JSON.stringify([what?.projectId, what?.from, what && alertType(what)]);
    if (found.has(key)) found.get(key).push(alert);
    else found.set(key, [alert]);
  }
  return [...found].map(([key, list]) => ({ key, list }));
}
