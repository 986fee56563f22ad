// Numbers in the form in which the page shows them.

const grouped = new Intl.NumberFormat("en");

// count formats a number with separators between the thousands.
export const count = (n) => grouped.format(n ?? 0);

// plural formats a number with its noun: plural(2, "message") is "2 messages".
export const plural = (n, one, many = one + "s") => `${count(n)} ${n === 1 ? one : many}`;
