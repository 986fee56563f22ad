// The numbers in the rail, which views set: tallies.value.agents is {n, hot, title}.

import { signal } from "@preact/signals";

export const tallies = signal({});
export const tally = (path, of) => (tallies.value = { ...tallies.value, [path]: of });
