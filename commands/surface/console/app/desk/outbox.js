// The answers that are given on this page, and the words that were typed for them. An answer is held for some seconds, in
// which it can be taken back, and sent then.

import { signal } from "@preact/signals";
import { heldUntil, holding } from "../../../look/held.js";
import { sealAnswer } from "../../../phone/app/seal.js";
import * as store from "../../../phone/app/store.js";
import { Failure, askAsDevice } from "../api.js";
import { wasRead } from "./reading.js";

// answers are by question. The state of one is
//   typed: only the draft is there;
//   held: it can be taken back until then, and done is called once it was sent: {says, body, token, until, done};
//   sending: {says, sent}, a promise of the failure if it is refused;
//   given: the daemon took it at that time, or it came too late: {says, taken} or {says, late};
//   refused: {says, failure}.
// draft are the words that were typed and not sent: {text}. They are kept while the form is not shown. What an answer
// says is {option}, {option, text} or {text}.
const answers = signal(new Map());

// answerTo returns the answer to a question.
export const answerTo = (id) => answers.value.get(id) ?? {};

// inState returns the answers that are in a state, with the ids of their questions.
const inState = (...states) => [...answers.value].filter(([, { state }]) => states.includes(state));

// refusedAnswers are those that were not taken: [id, {says, failure}].
export const refusedAnswers = () => inState("refused");

const put = (id, answer) => (answers.value = new Map(answers.value).set(id, answer));

// typed keeps what stands in the form of a question. Nothing is shown anew: it stands there.
export function typed(id, text) {
  const answer = answers.value.get(id);
  if (answer) answer.draft = { text };
  else answers.value.set(id, { state: "typed", draft: { text } });
}

// hold keeps an answer for the time in which it can be taken back, and sends it then. done is called when that has come
// to an end.
export async function hold(id, says, done) {
  delete answers.value.get(id)?.draft;
  let body, token;
  const question = wasRead(id);
  try {
    const device = await store.get("device");
    if (!question || !device) throw new Failure("unpaired", "This browser is no longer paired.", "Pair it again, or answer on another device.");
    body = await sealAnswer(question.item, question.what, says);
    token = device.token;
  } catch (failure) {
    put(id, { state: "refused", says, failure });
    return;
  }
  // Of two presses, one after the other, the second counts.
  put(id, { state: "held", says, body, token, until: heldUntil(question.item.expiresAt), done });
}

// undo takes an answer back that was not sent. draft is what stands in its form again.
export const undo = (id, draft) => put(id, { state: "typed", draft });

// release sends an answer that is held, and returns a promise of the failure if it is refused.
function release(id) {
  const answer = answers.value.get(id), sent = send(id, answer);
  put(id, { state: "sending", says: answer.says, sent });
  return sent;
}

// send posts an answer. It waits for nothing before that, since a page that goes away does not go on after an await.
// That somebody was first, or that the time is over (409), the lists say.
async function send(id, { says, body, token, done }) {
  let answer, refusal;
  try {
    await askAsDevice(token, "POST", `questions/${encodeURIComponent(id)}/answer`, { body, keepalive: true });
    answer = { state: "given", says, taken: performance.now() };
  } catch (failure) {
    if (failure.status === 409) answer = { state: "given", says, late: true };
    else answer = { state: "refused", says, failure: (refusal = failure) };
  }
  put(id, answer);
  done();
  return refusal;
}

// releaseAll sends what is held, for a page that goes away, and waits for what is on its way. Of each it returns the
// failure if it is refused.
export const releaseAll = () => Promise.all(inState("held", "sending").map(([id, { sent }]) => sent ?? release(id)));

// refuseHeld gives up what is held on a desk that was revoked: nobody would take it.
export function refuseHeld() {
  for (const [id, { says }] of inState("held")) put(id, { state: "refused", says, failure: new Failure("unauthenticated", "This desk was revoked.") });
}

// reopened notes that an answer was refused: the daemon had taken it, and said at `asked`, which is later, that the
// question is open.
export function reopened(id, asked) {
  const { says, taken } = answerTo(id);
  if (!(taken < asked)) return;
  put(id, { state: "refused", says, failure: new Failure("refused", "The answer did not pass the asking agent’s check, so the question is open again.", `Answer again. To see the reason, run \`mailroom trace ${id}\`.`) });
}

// forgetAnswers forgets all of them.
export const forgetAnswers = () => (answers.value = new Map());

const listHeld = () => inState("held").map(([id, { until }]) => [id, until]);

answers.subscribe(holding({ held: listHeld, send: release, show: () => (answers.value = new Map(answers.value)) }).watch);
