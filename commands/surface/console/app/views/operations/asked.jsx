// What the sections of Operations, and Audit, are made of beside the common parts.

import { Command, Loaded } from "../../parts.jsx";
import { ago } from "../../time.js";

// Asked is Loaded, and says what to do where one has no right to ask.
export function Asked({ of, children }) {
  if (of.failure?.code === "permission_denied") return <NoRight />;
  return <Loaded of={of}>{children}</Loaded>;
}

export const NoRight = () => (
  <div class="empty">
    <p>Only an administrator sees this. You are logged in as an agent that is none.</p>
    <Command text="mailroom console" />
  </div>
);

// Ago is how long ago a time is, in words, and the exact time on hover.
export const Ago = ({ at }) => <time dateTime={at} title={at}>{ago(at)}</time>;

// Said is what was done just now, and what takes it back.
export const Said = ({ children }) => <div class="said" role="status">{children}</div>;

// clip shortens what may be long: text of others can be of any length.
export const clip = (text, most = 600) => (text.length > most ? `${text.slice(0, most)}… (${text.length} characters)` : text);
