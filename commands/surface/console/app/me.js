// As whom one is logged in.

import { signal } from "@preact/signals";
import { quoted } from "./words.js";

// me is what whoAmI says, before any view is shown.
export const me = signal(null);

// mayAdminister reports whether one has the right of an administrator.
export const mayAdminister = () => me.value.admin;

// anywhere is a command for a terminal as it can be typed in any folder: it names the database where it would not find it.
export const anywhere = (command) => (me.value?.named ? command.replace(/^mailroom /, () => `mailroom --db ${quoted(me.value.database)} `) : command);
