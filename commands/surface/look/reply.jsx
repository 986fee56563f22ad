// The reply to a question: its options with a comment, or a text, and the answer that a person can still take back.
import { useRef } from "preact/hooks";
import { spoken } from "./answer.js";
import { ranked, refuses } from "./options.js";

// longest is the maximum number of characters in an answer.
const longest = "2000";

// Reply renders the form for the answer to a question. id is the ID of the question. The element with the ID ID-asked
// must show the question. draft is an answer that was taken back; its text is in the form again. onAnswer is called
// with {option}, {option, text}, or {text}.
export const Reply = ({ options = [], ...asked }) =>
  options.length ? <Choices options={options} {...asked} /> : <Letter {...asked} />;

function Choices({ id, question, options, draft, onAnswer }) {
  const field = useRef(), list = ranked(question, options);
  const press = (option) => {
    const text = field.current.value.trim();
    onAnswer(text ? { option, text } : { option });
  };
  const row = (name, some) => some.length > 0 && <div class={name}>{some.map(({ option, words, rank }) => (
    <button key={option} type="button" class={`choice ${rank}`} onClick={() => press(option)}>{words}</button>))}</div>;
  return (
    <div class="reply" role="group" aria-labelledby={`${id}-asked`}>
      {row("choices", list.filter(({ rank }) => rank !== "apart"))}
      {row("choices apart", list.filter(({ rank }) => rank === "apart"))}
      <details class="fold" open={draft !== undefined}>
        <summary class="btn quiet">Add a comment</summary>
        <label for={`${id}-text`}>Sent with the option that you press</label>
        <Words id={id} draft={draft} field={field} />
      </details>
    </div>
  );
}

function Letter({ id, draft, onAnswer }) {
  const field = useRef();
  const send = (event) => {
    event.preventDefault();
    const text = field.current.value.trim();
    if (text) onAnswer({ text });
    else field.current.focus();
  };
  // form-action is 'none', so the browser never submits the form. The form only gives the button its meaning.
  return (
    <form class="reply" onSubmit={send} novalidate>
      <label for={`${id}-text`}>Your answer</label>
      <Words id={id} draft={draft} field={field} />
      <button type="submit" class="btn first">Send answer</button>
    </form>
  );
}

const Words = ({ id, draft, field }) => (
  <textarea ref={field} id={`${id}-text`} rows="3" maxlength={longest} defaultValue={draft?.text ?? ""} />
);

// Held replaces the form while a person can take back the answer. until is when the answer is sent, in milliseconds
// since 1970. The caller must render Held again as that time comes closer. onUndo(draft, words) takes back the
// answer. draft is the text that the form shows again, if any. words is true if the person wants to add a comment.
export function Held({ answer, options = [], until, onUndo }) {
  const option = options[answer.option], seconds = Math.max(0, Math.ceil((until - Date.now()) / 1000));
  const back = (words) => onUndo(words || answer.text ? answer : undefined, words);
  return (
    <div class="held">
      <p class="fate">Your answer: {spoken(answer, options)}</p>
      <p class="muted">Sent in <span data-until={until}>{seconds} s</span></p>
      <div class="acts">
        <button type="button" class="btn" onClick={() => back(false)}>Undo</button>
        {option !== undefined && !answer.text && (
          <button type="button" class="btn quiet" onClick={() => back(true)}>
            {refuses(option) ? "Say why" : "Add a comment"}
          </button>
        )}
      </div>
    </div>
  );
}
