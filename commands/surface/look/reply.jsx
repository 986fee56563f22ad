// Answering a question: its options with a few words beside them, or a text; and the answer that can still be taken
// back.
import { useRef } from "preact/hooks";
import { spoken } from "./answer.js";
import { ranked, refuses } from "./options.js";

// longest is how many characters an answer may have.
const longest = "2000";

// Reply is what a question is answered with. id is that of the question, and of the element with the id ID-asked that
// shows it. draft is an answer that was taken back: its words are there again. onAnswer is called with {option},
// {option, text} or {text}.
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
  // form-action is 'none': the form never goes anywhere, it only gives the button its meaning.
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

// Held stands in the place of the reply while an answer can be taken back. until is when it is sent, in milliseconds
// since 1970: who shows this shows it again as that comes closer. onUndo(draft, words) takes it back: draft is what
// stands in the form again, if anything does, and words is true where that is done to add some.
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
