// Answering a question: its options with a few words beside them, or a text; and the five seconds in which an answer can be taken back.
// Both are made of elements alone, so that a page of any kind can put them in.
import { make } from "./dom.js";
import { ranked, refuses } from "./options.js";

// takeBack is for how long an answer can be taken back before it is sent, in milliseconds.
export const takeBack = 5000;

// longest is how many characters an answer may have.
const longest = "2000";

// spoken is an answer, {option, text}, in words: the option and what was written beside it, or the text.
export const spoken = (answer, options = []) => [options[answer?.option], answer?.text].filter(Boolean).join(": ");

// answerForm makes what a question is answered with. id is that of the question, and of the element with the id ID-asked that shows it.
// draft is an answer that was taken back: its words are there again. onAnswer is called with {option}, {option, text} or {text}.
export function answerForm({ id, question, options = [], draft, onAnswer }) {
  return options.length ? choices({ id, question, options, draft, onAnswer }) : letter({ id, draft, onAnswer });
}

function choices({ id, question, options, draft, onAnswer }) {
  const words = textarea(id, draft?.text);
  const list = ranked(question, options);
  const press = (option) => {
    const text = words.value.trim();
    onAnswer(text ? { option, text } : { option });
  };
  const row = (name, some) => some.length > 0 && make("div", { class: name }, some.map(({ option, words, rank }) =>
    make("button", { type: "button", class: `choice ${rank}`, onclick: () => press(option) }, words)));
  return make("div", { class: "reply", role: "group", "aria-labelledby": `${id}-asked` },
    row("choices", list.filter(({ rank }) => rank !== "apart")),
    row("choices apart", list.filter(({ rank }) => rank === "apart")),
    make("details", { class: "fold", open: draft !== undefined },
      make("summary", { class: "btn quiet" }, "Add a word"),
      make("label", { for: words.id }, "Goes with the option that you press"),
      words));
}

function letter({ id, draft, onAnswer }) {
  const words = textarea(id, draft?.text);
  const send = (event) => {
    event.preventDefault();
    const text = words.value.trim();
    if (text) onAnswer({ text });
    else words.focus();
  };
  // form-action is 'none': the form never goes anywhere, it only gives the button its meaning.
  return make("form", { class: "reply", onsubmit: send, novalidate: true },
    make("label", { for: words.id }, "Your answer"),
    words,
    make("button", { type: "submit", class: "btn first" }, "Send answer"));
}

function textarea(id, text = "") {
  const area = make("textarea", { id: `${id}-text`, rows: "3", maxlength: longest });
  area.value = text;
  return area;
}

// heldAnswer makes what stands in the place of the form while an answer can be taken back. until is when it is sent, in milliseconds since
// 1970: show that with counted. onUndo takes it back; onWords does so to have words added to it.
export function heldAnswer({ answer, options = [], until, onUndo, onWords }) {
  const option = options[answer.option];
  return make("div", { class: "held" },
    make("p", { class: "fate" }, `Your answer: ${spoken(answer, options)}`),
    make("p", { class: "muted" }, "Sent in ", make("span", { "data-until": String(until) }, counted(until))),
    make("div", { class: "acts" },
      make("button", { type: "button", class: "btn", onclick: onUndo }, "Undo"),
      option !== undefined && !answer.text && make("button", { type: "button", class: "btn quiet", onclick: onWords }, refuses(option) ? "Say why" : "Add a word")));
}

// counted is how long it still is until a time, in whole seconds.
export const counted = (until) => `${Math.max(0, Math.ceil((until - Date.now()) / 1000))} s`;

// countDown keeps the seconds of all answers that are shown and can still be taken back, and calls due when the time of one is over.
// It returns what ends that.
export function countDown(due) {
  const timer = setInterval(() => {
    for (const element of document.querySelectorAll("[data-until]")) {
      const until = Number(element.dataset.until), words = counted(until);
      if (element.textContent !== words) element.textContent = words;
      if (until > Date.now()) continue;
      element.removeAttribute("data-until");
      due();
    }
  }, 250);
  return () => clearInterval(timer);
}
