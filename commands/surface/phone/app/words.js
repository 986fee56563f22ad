// The words for the outcome and the time of items, in the page and in notifications.
import { spoken } from "../../look/answer.js";

// fate returns the outcome of a question. chosen is the answer given on this device, if there is one.
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

// chosen returns the answer given on this device, in words.
export const chosen = (record, question) => spoken(record.answer, question?.options);

// within puts the name of the project before the title of a notification, because a person may have several projects.
export const within = (project, title) => (project ? `${project}: ${title}` : title);

// when formats a time as briefly as possible: without the date if the time is today, and without the year if it is
// this year.
export function when(time) {
  const at = new Date(time);
  if (Number.isNaN(at.getTime())) return "";
  const now = new Date();
  const clock = { hour: "2-digit", minute: "2-digit" };
  if (at.toDateString() === now.toDateString()) return at.toLocaleTimeString(undefined, clock);
  const year = at.getFullYear() === now.getFullYear() ? {} : { year: "numeric" };
  return at.toLocaleString(undefined, { month: "short", day: "numeric", ...year, ...clock });
}
