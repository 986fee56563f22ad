// As whom one is logged in, for views that say what one may not do.

import { signal } from "@preact/signals";
import { whoAmI } from "./api.js";

// me is {agent, admin, ...} once it is known.
export const me = signal(null);
let asked = false;

// mayAdminister reports whether one may change agents; yes until it is known.
export function mayAdminister() {
  if (!asked) {
    asked = true;
    whoAmI().then((who) => (me.value = who), () => (asked = false));
  }
  return me.value?.admin ?? true;
}
