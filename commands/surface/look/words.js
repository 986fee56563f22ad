// Numbers as they are shown.

const grouped = new Intl.NumberFormat("en");

// count is a number with its thousands apart.
export const count = (n) => grouped.format(n ?? 0);

// plural is a number with its word: plural(2, "message") is "2 messages".
export const plural = (n, one, many = one + "s") => `${count(n)} ${n === 1 ? one : many}`;
