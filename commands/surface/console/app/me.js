// As whom one is logged in.

import { signal } from "@preact/signals";

// me is what whoAmI says, before any view is shown.
export const me = signal(null);

// mayAdminister reports whether one has the right of an administrator.
export const mayAdminister = () => me.value.admin;
