// The five seconds in which a person can take back an answer.

const takeBack = 5000; // milliseconds

// heldUntil returns until when a person can take back an answer given now, in milliseconds since 1970. If the
// question expires within ten seconds, this is now.
export function heldUntil(expiresAt) {
  const now = Date.now();
  return Date.parse(expiresAt) < now + 2 * takeBack ? now : now + takeBack;
}

// holding returns functions that send each held answer when its time is over, and all held answers immediately when
// the page closes. held() returns the held answers as [id, until]. send(id) sends an answer. show() updates the
// remaining time on the page. holding returns sendDue({all}), and watch(), which must be called whenever the list has
// changed.
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
