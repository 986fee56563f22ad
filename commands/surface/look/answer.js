// Answers in words.

// spoken is an answer, {option, text}, in words: the option and what was written beside it, or the text.
export const spoken = (answer, options = []) => [options[answer?.option], answer?.text].filter(Boolean).join(": ");
