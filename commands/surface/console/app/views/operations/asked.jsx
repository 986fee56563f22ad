// Components and functions that the sections of Operations, and Audit, share.

import { ago } from "../../time.js";

// Ago renders how long ago a time was, in words, with the exact time on hover.
export const Ago = ({ at }) => <time dateTime={at} title={at}>{ago(at)}</time>;

// Said renders a notice about the last action, with a way to undo it.
export const Said = ({ children }) => <div class="said" role="status">{children}</div>;

// clip shortens text that may be long, because text from other programs can have any length.
export const clip = (text, most = 600) => (text.length > most ? `${text.slice(0, most)}… (${text.length} characters)` : text);
