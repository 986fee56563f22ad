// The story of a question to the person: asked, answered on a phone, and gone back to who asked.

const ms = (at) => Date.parse(at);

// asked tells the story of a question (see the command trace) until `now`, as steps like those of story.js. names are those of devices.
export function asked({ message, events }, names, now) {
  const list = [], who = message.sender;
  let done = null;
  const point = (e, kind, shape, label, note) => {
    list.push({ kind, shape, label, from: ms(e.at), to: ms(e.at), note, at: e.at });
    done = ms(e.at);
  };
  const wait = (to, open = false) => to > done && list.push({ kind: "person", label: open ? "Waits for a person, still" : "Waits for a person", from: done, to, open });
  for (const e of events) {
    const why = e.error || e.detail;
    switch (e.event) {
      case "created": point(e, "sent", "question", `Asked by ${who}`); break;
      case "answered": {
        const device = why?.replace(/^by /, "");
        wait(ms(e.at));
        point(e, "good", "delivered", `Answered on ${names.get(device) ?? device ?? "a phone"}`);
        break;
      }
      case "refused": point(e, "bad", "failed", "An answer was refused", why); break;
      case "delivered": point(e, "act", "sent", `The answer went back to ${who}`); break;
      case "failed": point(e, "bad", "failed", "The answer did not go back", why); break;
      case "read": point(e, "act", "delivered", `The answer was read by ${who}`); break;
      case "expired": wait(ms(e.at)); point(e, "bad", "expired", "Nobody answered in time"); break;
      case "cancelled": wait(ms(e.at)); point(e, "act", "cancelled", "Taken back", why); break;
    }
  }
  if (message.status === "pending") wait(now, true);
  return list;
}

// become is what has become of a question, in a few words.
export const become = ({ message }) => ({ answered: "A person has answered", expired: "Nobody answered in time", cancelled: "Taken back before it was answered" })[message.status] ?? "Waits for a person’s answer";
