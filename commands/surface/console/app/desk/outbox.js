// The answers that a person gave on this page, and the text typed for them. The page holds each answer for some
// seconds, in which the person can take it back, and then sends it.

import { signal } from "@preact/signals";
import { heldUntil, holding } from "../../../look/held.js";
import { sealAnswer } from "../../../phone/app/seal.js";
import * as store from "../../../phone/app/store.js";
import { Failure, askAsDevice } from "../api.js";
import { wasRead } from "./reading.js";

// answers maps the ID of a question to its answer. The states of an answer are
//   typed: there is only a draft;
//   held: the person can take the answer back until `until`. The page calls `done` after it sends the answer:
//     {says, body, token, until, done};
//   sending: {says, sent}. sent is a promise of the failure if the daemon refuses the answer;
//   given: the daemon accepted the answer at the time `taken`, or the answer came too late:
//     {says, taken} or {says, late};
//   refused: {says, failure}.
// draft is the text that was typed and not sent: {text}. It is kept while the form is not shown. says, the content of
// an answer, is {option}, {option, text}, or {text}.
const answers = signal(new Map());

// answerTo returns the answer to a question, {} if there is none.
export const answerTo = (id) => answers.value.get(id) ?? {};

// inState returns the answers in one of some states, each as [id of the question, answer].
const inState = (...states) => [...answers.value].filter(([, { state }]) => states.includes(state));

// refusedAnswers returns the answers that were refused: [id, {says, failure}].
export const refusedAnswers = () => inState("refused");

const put = (id, answer) => (answers.value = new Map(answers.value).set(id, answer));

// typed stores the text in the form of a question. Nothing needs to be drawn again, because the form already shows
// the text.
export function typed(id, text) {
  const answer = answers.value.get(id);
  if (answer) answer.draft = { text };
  else answers.value.set(id, { state: "typed", draft: { text } });
}

// hold seals an answer, holds it for the time in which the person can take it back, and then sends it. After that, it
// calls done.
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
  // If the person presses twice, the second answer counts.
  put(id, { state: "held", says, body, token, until: heldUntil(question.item.expiresAt), done });
}

// undo takes back an answer that has not been sent. The form shows draft again.
export const undo = (id, draft) => put(id, { state: "typed", draft });

// release sends a held answer. It returns a promise of the failure if the daemon refuses the answer.
function release(id) {
  const answer = answers.value.get(id), sent = send(id, answer);
  put(id, { state: "sending", says: answer.says, sent });
  return sent;
}

// send posts an answer. It awaits nothing before the request, because a page that closes does not continue after an
// await. If another device answered first or the time is over (409), the lists show that.
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

// releaseAll sends the held answers of a page that is about to close, and waits for all answers that are being sent.
// For each, it returns the failure if the daemon refuses the answer.
export const releaseAll = () => Promise.all(inState("held", "sending").map(([id, { sent }]) => sent ?? release(id)));

// refuseHeld marks the held answers of a revoked desk as refused, because the daemon would not accept them.
export function refuseHeld() {
  for (const [id, { says }] of inState("held")) put(id, { state: "refused", says, failure: new Failure("unauthenticated", "This desk was revoked.") });
}

// reopened marks an answer as refused if the daemon accepted it, but listed the question as open in a later response.
// `asked` is the time of the request for that response.
export function reopened(id, asked) {
  const { says, taken } = answerTo(id);
  if (!(taken < asked)) return;
  put(id, { state: "refused", says, failure: new Failure("refused", "The answer did not pass the asking agent’s check, so the question is open again.", `Answer again. To see the reason, run \`mailroom trace ${id}\`.`) });
}

// forgetAnswers removes all answers.
export const forgetAnswers = () => (answers.value = new Map());

const listHeld = () => inState("held").map(([id, { until }]) => [id, until]);

answers.subscribe(holding({ held: listHeld, send: release, show: () => (answers.value = new Map(answers.value)) }).watch);
