// The numbers in the rail. Example: tallies.value.agents is {n, hot, title}.

import { signal } from "@preact/signals";

export const tallies = signal({});
