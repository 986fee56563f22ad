// Answers, and the five seconds in which one can be taken back.

// takeBack is for how long an answer can be taken back before it is sent, in milliseconds.
export const takeBack = 5000;

// spoken is an answer, {option, text}, in words: the option and what was written beside it, or the text.
export const spoken = (answer, options = []) => [options[answer?.option], answer?.text].filter(Boolean).join(": ");
