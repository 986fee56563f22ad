// The five seconds in which an answer can be taken back: until when it is held, and who sends it then.

const takeBack = 5000; // milliseconds

// heldUntil is until when an answer that is given now can be taken back, in milliseconds since 1970: not at all where
// its question would expire meanwhile.
export function heldUntil(expiresAt) {
  const now = Date.now();
  return Date.parse(expiresAt) < now + 2 * takeBack ? now : now + takeBack;
}

// holding sends answers once they cannot be taken back any more, and at once where the page goes away: they were
// given. held() lists those that can be, as [id, until]; send(id) sends one, and show() shows anew how long it still
// is. It returns sendDue({all}), and watch(), which is to be called when that list has changed.
export function holding({ held, send, show }) {
  let timer;
  const sendDue = ({ all = false } = {}) => {
    for (const [id, until] of held()) if (all || until <= Date.now()) send(id);
  };
  const beat = () => {
    sendDue();
    show();
  };
  const watch = () => {
    const some = held().length > 0;
    if (some) timer ??= setInterval(beat, 250);
    else timer = clearInterval(timer);
  };
  addEventListener("pagehide", () => sendDue({ all: true }));
  return { sendDue, watch };
}
