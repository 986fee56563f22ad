// How the options of a question are shown: which one is the obvious next step, and which do harm or refuse. What a question says is all
// there is to go by, so that this goes by its words. It only ever decides how an option looks, never which are there.

const harm =
  /\b(?:delet|eras|wip|purg|overwrit|forc|revok|remov|terminat)(?:e|es|ed|ing)\b|\b(?:destroy|discard|reset|drop|kill|abort)(?:s|ed|ped|ing|ping)?\b/i;
const refusal = /\b(?:reject|deny|decline|refuse)\b/i;

// spared are the words that take harm back: in "Do not delete it" nothing is deleted.
const spared = /\b(?:don[’']t|do not|never|without|not|no)\s+[\w-]+/gi;

const harms = (words) => harm.test(words.replace(spared, ""));

// refuses reports whether an option says no, so that whoever asked will want to know why.
export const refuses = (words) => refusal.test(words) || /^(?:no|not|don[’']t|stop|cancel)\b/i.test(words.trim());

// ranked returns the options of a question in the order in which they are shown, as {option, words, rank}; option is the index that
// an answer gives. rank is "first" of the one that is filled: that which calls itself recommended, else the first; "apart" of those that
// destroy or reject something, which come last and are never filled; "other" of the rest. Where the question itself is about
// destroying something, none is filled: it has to be read.
export function ranked(question, options) {
  const list = options.map((words, option) => ({ option, words, rank: harms(words) || refusal.test(words) ? "apart" : "other" }));
  const others = list.filter(({ rank }) => rank === "other");
  const first = others.find(({ words }) => /\brecommended\b/i.test(words)) ?? (harms(question) ? undefined : others[0]);
  if (first) first.rank = "first";
  const order = ["first", "other", "apart"];
  return list.sort((a, b) => order.indexOf(a.rank) - order.indexOf(b.rank) || a.option - b.option);
}
