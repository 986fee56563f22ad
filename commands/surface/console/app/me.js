// The identity of the person who is logged in.

import { signal } from "@preact/signals";
import { quoted } from "./words.js";

// me is the result of whoAmI. It is set before any view is shown.
export const me = signal(null);

// mayAdminister reports whether the token has administrator rights.
export const mayAdminister = () => me.value.admin;

// anywhere returns a command that works in a terminal in any folder. It adds the database if the command would not
// find it by itself.
export const anywhere = (command) => (me.value?.named ? command.replace(/^mailroom /, () => `mailroom --db ${quoted(me.value.database)} `) : command);
