// The icons of the page.
const paths = {
  questions: "M4 5h16v11H9l-5 4z",
  alerts: "M6 17V11a6 6 0 0 1 12 0v6l2 2H4zM10 21h4",
  history: "M12 4a8 8 0 1 1-7.5 5.2M4 4v5h5M12 8v4l3 2",
  settings: "M4 7h9M17 7h3M15 5v4M4 17h3M11 17h9M9 15v4M4 12h6M14 12h6M12 10v4",
  error: "M8.2 3h7.6L21 8.2v7.6L15.8 21H8.2L3 15.8V8.2zM12 7.5v5.5M12 16v.5",
  warning: "M12 3.5 21.5 20h-19zM12 10v4.5M12 17v.5",
  success: "M12 3a9 9 0 1 1 0 18 9 9 0 0 1 0-18zM8 12.3l2.8 2.7L16 9.5",
  info: "M12 3a9 9 0 1 1 0 18 9 9 0 0 1 0-18zM12 11v5.5M12 7.5V8",
  open: "M6 11h12v9H6zM9 11V7.5a3 3 0 0 1 5.8-1.2",
  high: "M12 19V5M6 11l6-6 6 6",
  offline: "M3 3l18 18M8 18h9.5M6.5 9.5A4.5 4.5 0 0 0 7 18M10.5 6.3a5 5 0 0 1 6.9 4.9A3.5 3.5 0 0 1 20 16",
  check: "M5 12.5l4.5 4.5L19 7.5",
};

// Icon renders an icon beside a word. It is hidden from screen readers.
export const Icon = ({ name }) => <svg viewBox="0 0 24 24" aria-hidden="true" class="i"><path d={paths[name]} /></svg>;
