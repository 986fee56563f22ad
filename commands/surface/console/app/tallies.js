// The numbers in the rail: tallies.value.agents is {n, hot, title}.

import { signal } from "@preact/signals";

export const tallies = signal({});
