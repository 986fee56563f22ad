// Answers in words.

// spoken returns an answer, {option, text}, in words: the option and the comment on it, or the text.
export const spoken = (answer, options = []) => [options[answer?.option], answer?.text].filter(Boolean).join(": ");
