// The types of alerts from agents to the user, and the groups of alerts.

const words = { error: "Error", warning: "Warning", success: "Success", info: "Information" };

// alertType returns the type of an alert, and alertWord returns the word for it that people see.
export const alertType = (alert) => (Object.hasOwn(words, alert.alertType) ? alert.alertType : "info");
export const alertWord = (alert) => words[alertType(alert)];

// groups combines the alerts of one type that one agent sent for one project. whatOf returns the contents of an
// alert, or undefined if the alert cannot be read. The order stays: a group takes the position of its first alert.
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
