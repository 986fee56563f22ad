// How to show the options of a question: which option is the obvious next step, and which options do harm or refuse.
// Only the words of the question and the options are known, so the functions decide by these words. They decide only
// how an option looks, never whether it is offered.

const harm =
  /\b(?:delet|eras|wip|purg|overwrit|forc|revok|remov|terminat)(?:e|es|ed|ing)\b|\b(?:destroy|discard|reset|drop|kill|abort)(?:s|ed|ped|ing|ping)?\b/i;
const refusal = /\b(?:reject|deny|decline|refuse)\b/i;

// spared matches words that negate harm: "Do not delete it" deletes nothing.
const spared = /\b(?:don[’']t|do not|never|without|not|no)\s+[\w-]+/gi;

const harms = (words) => harm.test(words.replace(spared, ""));

// refuses reports whether an option refuses something, so that the asker will want to know why.
export const refuses = (words) => refusal.test(words) || /^(?:no|not|don[’']t|stop|cancel)\b/i.test(words.trim());

// ranked returns the options of a question in display order, as {option, words, rank}. option is the index that an
// answer contains. rank is "first" for the option that is filled: the option marked as recommended, otherwise the
// first. rank is "apart" for options that destroy or reject something, which come last and are never filled. rank is
// "other" for the rest. If the question itself is about destroying something and no option is recommended, no option
// is filled, so that the person reads all of them.
export function ranked(question, options) {
  const list = options.map((words, option) => ({ option, words, rank: harms(words) || refusal.test(words) ? "apart" : "other" }));
  const others = list.filter(({ rank }) => rank === "other");
  const first = others.find(({ words }) => /\brecommended\b/i.test(words)) ?? (harms(question) ? undefined : others[0]);
  if (first) first.rank = "first";
  const order = ["first", "other", "apart"];
  return list.sort((a, b) => order.indexOf(a.rank) - order.indexOf(b.rank) || a.option - b.option);
}
