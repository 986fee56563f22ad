// What the sections of Operations, and Audit, are made of beside the common parts.

import { ago } from "../../time.js";

// Ago is how long ago a time is, in words, and the exact time on hover.
export const Ago = ({ at }) => <time dateTime={at} title={at}>{ago(at)}</time>;

// Said is what was done just now, and what takes it back.
export const Said = ({ children }) => <div class="said" role="status">{children}</div>;

// clip shortens what may be long: text of others can be of any length.
export const clip = (text, most = 600) => (text.length > most ? `${text.slice(0, most)}… (${text.length} characters)` : text);
