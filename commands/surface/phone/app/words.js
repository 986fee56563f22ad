// What things are called, in the page and in notifications.
import { spoken } from "../../look/answer.js";

// fate says what became of a question; chosen is what was answered here, if anything was.
export function fate(record, chosen) {
  switch (record.status) {
    case "answered":
      if (record.mine) return chosen === undefined ? "Answered on this device" : `You answered: ${chosen}`;
      if (record.tried) return "Already answered, possibly by the answer that you sent before the connection failed";
      return record.answer ? "Answered on another device before your answer arrived" : "Answered on another device";
    case "expired":
      return record.answer ? "Expired before your answer arrived" : "Expired without an answer";
    case "cancelled":
      return record.answer ? "Canceled by the asker before your answer arrived" : "Canceled by the asker";
    default:
      return "No longer available";
  }
}

// chosen is the answer of this device.
export const chosen = (record, question) => spoken(record.answer, question?.options);

// within puts the name of the project before the title of a notification: a person may have several.
export const within = (project, title) => (project ? `${project}: ${title}` : title);

// when writes a time as short as it can be: without the date if it is today's, without the year if it is this one.
export function when(time) {
  const at = new Date(time);
  if (Number.isNaN(at.getTime())) return "";
  const now = new Date();
  const clock = { hour: "2-digit", minute: "2-digit" };
  if (at.toDateString() === now.toDateString()) return at.toLocaleTimeString(undefined, clock);
  const year = at.getFullYear() === now.getFullYear() ? {} : { year: "numeric" };
  return at.toLocaleString(undefined, { month: "short", day: "numeric", ...year, ...clock });
}
