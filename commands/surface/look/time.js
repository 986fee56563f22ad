// Durations in the form in which people read them.

const minute = 60_000; // milliseconds

// span formats a duration in milliseconds as 12 ms, 1.4 s, 42 min, 6 h 12 min, or 3 d 4 h.
export function span(ms) {
  if (Number.isNaN(ms)) return "?";
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const s = ms / 1000;
  if (s < 10) return `${s.toFixed(1).replace(/\.0$/, "")} s`;
  if (s < 60) return `${Math.floor(s)} s`;
  const min = Math.floor(s / 60);
  if (min < 60) return `${min} min`;
  const h = Math.floor(min / 60);
  if (h < 24) return min % 60 ? `${h} h ${min % 60} min` : `${h} h`;
  const d = Math.floor(h / 24);
  return h % 24 ? `${d} d ${h % 24} h` : `${d} d`;
}

// left returns the time left until a time, such as "59 min left", or "" for text that is not a time.
export function left(text, now = Date.now()) {
  const ms = Date.parse(text) - now;
  if (Number.isNaN(ms)) return "";
  return ms < minute ? "less than a minute left" : `${span(ms)} left`;
}
