// The story of a question to the person: the question, the answer on a device, and the delivery of the answer to the
// asker.

import { useCommand } from "../data.js";
import { span } from "../time.js";

// isSignal reports whether an ID is the ID of a question or an alert. The trace of such an ID also contains the
// stories of its pushes.
export const isSignal = (id) => /^[qa]-/.test(id);

// useQuestion returns the story of the question that `story` is, or that the message to the person became, with the
// names of the devices on which the question can be answered. For any other message, it returns null.
export function useQuestion(story, why) {
  const m = story.message, own = isSignal(m.message_id) && m.message_type === "question";
  const id = m.recipient === "user" && !own ? /\bq-\w+/.exec(why?.where)?.[0] : null;
  const trace = useCommand(id ? "trace" : null, { message_id: id }, { matters: (e) => e.data.message_id === id });
  const devices = useCommand(id || own ? "signal_device_list" : null, {}, { matters: () => false });
  const found = own ? story : trace.data?.stories[0];
  return found && { story: found, names: new Map(devices.data?.devices.map((d) => [d.id, d.name])) };
}

const ms = (at) => Date.parse(at);

// deviceOf returns the name of the device on which a question was answered, from the event that records the answer.
function deviceOf({ error, detail }, names) {
  const id = (error || detail)?.replace(/^by /, "");
  return names.get(id) ?? id ?? "a device";
}

// asked converts the story of a question (see the command trace) until `now` into steps like the steps of story.js.
// names maps the IDs of devices to their names.
export function asked({ message, events }, names, now) {
  const list = [], who = message.sender;
  let done = null;
  const point = (e, kind, shape, label, note) => {
    list.push({ kind, shape, label, from: ms(e.at), to: ms(e.at), note, at: e.at });
    done = ms(e.at);
  };
  const wait = (to, open = false) => to > done && list.push({ kind: "person", label: open ? "Waiting for a person" : "Waited for a person", from: done, to, open });
  for (const e of events) {
    const why = e.error || e.detail;
    switch (e.event) {
      case "created": point(e, "sent", "question", `Asked by ${who}`); break;
      case "answered": {
        wait(ms(e.at));
        point(e, "good", "delivered", `Answered on ${deviceOf(e, names)}`);
        break;
      }
      case "refused": point(e, "bad", "failed", "An answer was rejected", why); break;
      case "delivered": point(e, "act", "sent", "The answer was sent", `to ${who}`); break;
      case "failed": point(e, "bad", "failed", "The answer was not sent", why); break;
      case "read": point(e, "act", "delivered", "The answer was read", `by ${who}`); break;
      case "expired": wait(ms(e.at)); point(e, "bad", "expired", "Nobody answered in time"); break;
      case "cancelled": wait(ms(e.at)); point(e, "act", "cancelled", "Canceled", why); break;
    }
  }
  if (message.status === "pending") wait(now, true);
  return list;
}

// become returns the state of a question in a few words.
export const become = ({ message }) => ({ answered: "A person has answered", expired: "Nobody answered in time", cancelled: "Canceled before it was answered" })[message.status] ?? "Waiting for a person’s answer";

// outcome returns a sentence about the answer to a question, or "" if the question has no answer yet.
export function outcome({ message, events }, names) {
  const answered = events.find((e) => e.event === "answered"), from = ms(events[0]?.at);
  return message.status === "answered" && answered ? `${message.sender} asked the person who runs the agents. The person answered on ${deviceOf(answered, names)} after ${span(ms(answered.at) - from)}.` : "";
}
